"""What a session needs of a framework that runs graphs."""
