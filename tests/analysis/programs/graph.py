"""An activation that the graph is done with after the backward pass, and the optimizer's step is not."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    layer = nn.Linear(2048, 2048)
    optimizer = torch.optim.Adam(layer.parameters())
    total = 0.0
    for _ in range(2):
        x = torch.randn(1024, 2048)
        hidden = layer(x)
        loss = hidden.square().mean()
        loss.backward()
        total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
    return total
