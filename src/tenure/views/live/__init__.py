"""A run that goes on, in a terminal: `tenure top`."""
