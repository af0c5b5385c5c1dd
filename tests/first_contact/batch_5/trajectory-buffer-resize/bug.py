import os

import numpy as np
import torch
from torch import nn


class TrajectoryBuffer:
    def __init__(self, features, capacity=64):
        self.data = np.zeros((capacity, features), dtype="float32")
        self.size = 0

    def append(self, rows):
        while self.size + len(rows) > len(self.data):
            self.data.resize((2 * len(self.data), self.data.shape[1]))
        self.data[self.size : self.size + len(rows)] = rows
        self.size += len(rows)

    def latest(self, n):
        return torch.from_numpy(self.data[max(0, self.size - n) : self.size])


def simulate(rng, length=8):
    phase = rng.uniform(0, 6) + 0.3 * np.arange(length)
    return np.stack([np.sin(phase), np.cos(phase), np.roll(np.sin(phase), -1)], axis=1)


def main():
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    buffer = TrajectoryBuffer(features=3)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for episode in range(int(os.environ.get("STEPS", "40"))):
        buffer.append(simulate(rng))
        recent = buffer.latest(32)
        loss = (model(recent[:, :2]) - recent[:, 2:]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("rows", buffer.size, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
