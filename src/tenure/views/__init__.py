"""The views of a trace. A view renders results and computes nothing."""
