"""What grows while a program runs, one file a framework: buffers by birthplace, and what is no buffer."""
