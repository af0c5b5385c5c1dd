"""The page: a trace as a picture that one clicks into, in one file or served."""
