"""A training run to look at: its trainer keeps each step's predictions, and evaluation holds a large batch too long."""

import sys

import torch
from torch import nn

import tenure


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(
            nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 512)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.history = []

    def step(self, x, y):
        predicted = self.model(x)
        loss = (predicted - y).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history.append(predicted)

    def evaluate(self, batch):
        with torch.no_grad(), tenure.scope("evaluation"):
            features = torch.relu(batch @ torch.ones(512, 2048))
            scores = features.mean(1)
            pairs = scores[:, None] - scores[None, :]
            return float((pairs > 0).float().mean())


def main(steps):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    trainer = Trainer()
    for at in range(steps):
        x = torch.randn(256, 512)
        trainer.step(x, x)
        if at % 20 == 19:
            print(f"step {at}: {trainer.evaluate(torch.randn(1024, 512)):.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
