"""Where people work already: pytest, notebooks, trainers, TensorBoard. Each is imported by who uses it, and only then."""
