"""What happens to tensors: graphs, uses, reads, and what is still retained when the program ends."""
