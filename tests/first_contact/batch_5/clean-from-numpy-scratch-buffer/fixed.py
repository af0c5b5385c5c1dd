import os

import numpy as np
import torch
from torch import nn


class FrameStream:
    def __init__(self, frames, size=16, seed=0):
        self.rng = np.random.default_rng(seed)
        self.frames = frames
        self.scratch = np.empty((8, size * size), dtype="float32")
        self.batch = torch.from_numpy(self.scratch)

    def __iter__(self):
        for n in range(self.frames):
            self.rng.standard_normal(out=self.scratch, dtype="float32")
            self.scratch += np.sin(n / 5)
            yield self.batch


class RunningStatistics:
    def __init__(self):
        self.count = 0
        self.mean = None
        self.brightest = None

    def update(self, batch):
        self.count += 1
        if self.mean is None:
            self.mean = batch.mean(0)
            self.brightest = batch[0].clone()
        self.mean += (batch.mean(0) - self.mean) / self.count
        frame = batch[batch.mean(1).argmax()]
        if frame.mean() > self.brightest.mean():
            self.brightest = frame.clone()


def main():
    torch.manual_seed(0)
    statistics = RunningStatistics()
    model = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 256))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    total = 0.0
    for batch in FrameStream(int(os.environ.get("STEPS", "40"))):
        statistics.update(batch)
        loss = nn.functional.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print("loss", total / statistics.count, "brightest", statistics.brightest.mean().item())


if __name__ == "__main__":
    main()
