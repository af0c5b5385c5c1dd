"""Used in a loop, and no more after it."""

import torch


def main():
    torch.manual_seed(0)
    base = torch.randn(3_000_000)
    sums = []
    for scale in (1, 2, 3):
        sums.append((base[:1000] * scale).sum().item())
    tail = torch.zeros(5_000_000)
    tail += sum(sums)
    return tail.mean().item()
