"""A program that ends with an exception that tenure explains."""

import torch

weights = torch.ones(3, requires_grad=True)
loss = (weights * 2).exp().sum()
loss.backward()
print("before", flush=True)
loss.backward()
