"""Views for a terminal: plain text that also reads well in a file."""
