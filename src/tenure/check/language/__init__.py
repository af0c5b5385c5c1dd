"""Python itself: what statements, expressions, calls, builtins and the standard library do to values."""
