"""A training loop with two faults: run it with `tenure run`, or look at it with `tenure check`."""

import torch
from torch import nn


class Meter:
    """A running mean, as every project has one."""

    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)

    def mean(self):
        return sum(float(value) for value in self.values) / len(self.values)


def evaluate(model, batches):
    """Scores all pairs of a batch; `hidden` is needed for a moment, and kept to the end."""
    total = 0.0
    with torch.no_grad():
        for batch in batches:
            hidden = torch.relu(batch @ torch.ones(256, 2048))
            scores = hidden.mean(1)
            pairs = scores[:, None] - scores[None, :]
            total += float((pairs > 0).float().mean())
    return total


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    meter = Meter()
    for _ in range(60):
        x = torch.randn(64, 256)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.add(loss)
    print(f"mean loss {meter.mean():.2f}, order {evaluate(model, [torch.randn(1024, 256)] * 3):.2f}")


if __name__ == "__main__":
    main()
