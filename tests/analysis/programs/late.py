"""A `del` that stands too late."""

import torch


def main():
    torch.manual_seed(0)
    left = torch.randn(2000, 1000)
    right = torch.randn(1000, 500)
    product = left @ right
    squared = torch.zeros(3000, 1000)
    squared += product.sum()
    result = squared.mean().item()
    del left
    return result
