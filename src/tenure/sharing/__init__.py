"""One tensor in several functions, threads, processes and machines: stores, shared variables, sessions."""
