"""An evaluation loop: what the last turn made waits for the next turn to make it anew."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(64, 8192)
    hits = 0.0
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(256, 64)
            logits = model(x)
            weights = torch.softmax(logits, dim=-1)
            hits += weights.max().item()
    return hits
