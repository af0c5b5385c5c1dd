"""How each framework's tensors give their bytes, and are made over bytes that lie somewhere else."""
