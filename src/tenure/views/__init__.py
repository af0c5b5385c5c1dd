"""What people see of a trace: each view takes results and renders them, and computes nothing of its own."""
