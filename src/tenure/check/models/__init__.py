"""What libraries do, as data (`*.txt`, one line per function) and as code where a line is not enough."""
