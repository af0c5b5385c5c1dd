"""Control: scopes, keeping, ending, and telling what remains."""
