"""A training loop with a leak and a high peak: run it with `tenure run`, or check it with `tenure check`."""

import torch
from torch import nn


class Meter:
    """A running mean, as in many projects."""

    def __init__(self):
        self.log = []

    def add(self, value):
        self.log.append(value)

    def mean(self):
        return sum(value.item() for value in self.log) / len(self.log)


def evaluate(model, batches):
    """Compare all pairs of a batch. `hidden` is used once, but stays allocated until the next batch."""
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
        loss = (model(x) - x.sum(1, True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.add(loss)
    print(f"mean loss {meter.mean():.2f}, order {evaluate(model, [torch.randn(1024, 256)] * 3):.2f}")


if __name__ == "__main__":
    main()
