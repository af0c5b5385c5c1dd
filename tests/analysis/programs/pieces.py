"""A list of pieces that were joined."""

import torch


def main():
    torch.manual_seed(0)
    pieces = [torch.randn(1_000_000) for _ in range(4)]
    joined = torch.cat(pieces)
    ordered = joined.sort().values
    return (ordered[0] + ordered[-1]).item()
