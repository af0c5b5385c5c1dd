import copy
import os

import torch
from torch import nn


class RunningAverage:
    def __init__(self, model):
        self.count = 0
        self.weights = {k: torch.zeros_like(v) for k, v in model.state_dict().items()}
        self.losses = []

    @torch.no_grad()
    def collect(self, model, loss):
        self.count += 1
        for key, value in model.state_dict().items():
            self.weights[key] += (value - self.weights[key]) / self.count
        self.losses.append(loss.item())

    def export(self, model):
        averaged = copy.deepcopy(model)
        averaged.load_state_dict(self.weights)
        return averaged


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 40), nn.SiLU(), nn.Linear(40, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    average = RunningAverage(model)
    for step in range(int(os.environ.get("STEPS", "40"))):
        x = torch.randn(64, 12)
        loss = (model(x).squeeze(1) - x.prod(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.collect(model, loss)
    final = average.export(model)
    with torch.no_grad():
        print("last", average.losses[-1], "averaged", (final(x).squeeze(1) - x.prod(1)).square().mean().item())


if __name__ == "__main__":
    main()
