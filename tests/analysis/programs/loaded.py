"""Raw data that a function returned, and that was cleaned into something else."""

import torch


def load():
    raw = torch.arange(3_000_000, dtype=torch.float32)
    return raw.sin()


def main():
    data = load()
    clean = data - data.mean()
    windows = torch.cat([clean, clean.flip(0)])
    energy = windows.square()
    return energy.sum().item()
