"""Recording what happens to buffers: events, the recorder, its files, and reading them back."""
