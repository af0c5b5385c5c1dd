"""What the facts of a run mean: who holds a tensor, what leaks, what makes the peak."""
