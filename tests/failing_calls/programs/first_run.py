"""The first run on a machine: the native extensions are compiled."""

import torch

weights = torch.ones(3, requires_grad=True)
for _ in range(3):
    (weights * 2).sum().backward()
print(weights.grad.tolist())
