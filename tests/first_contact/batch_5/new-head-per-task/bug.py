import os
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


class Backbone(nn.Module):
    def __init__(self, features=32, dim=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.head = nn.Identity()

    def forward(self, x):
        return self.head(self.body(x))


@dataclass
class Learner:
    model: Backbone
    lr: float = 1e-3
    accuracies: list = field(default_factory=list)

    def __post_init__(self):
        self.optimizer = torch.optim.Adam(self.model.body.parameters(), lr=self.lr)

    def start_task(self, classes):
        self.model.head = nn.Linear(256, classes)
        self.optimizer.add_param_group({"params": self.model.head.parameters(), "lr": 10 * self.lr})

    def learn(self, x, y, iterations=3):
        for _ in range(iterations):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
        with torch.no_grad():
            self.accuracies.append((self.model(x).argmax(1) == y).float().mean().item())


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    learner = Learner(Backbone())
    for task in range(int(os.environ.get("STEPS", "40"))):
        classes = 20 + task % 5
        prototypes = torch.randn(classes, 32)
        y = torch.randint(classes, (128,))
        learner.start_task(classes)
        learner.learn(prototypes[y] + 0.3 * torch.randn(128, 32), y)
    print("mean accuracy", sum(learner.accuracies) / len(learner.accuracies))


if __name__ == "__main__":
    main()
