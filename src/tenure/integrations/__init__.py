"""Integrations with pytest, notebooks, trainers and TensorBoard. Each is imported only when it is used."""
