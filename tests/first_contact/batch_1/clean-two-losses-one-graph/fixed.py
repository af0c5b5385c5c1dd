import os

import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, 64), nn.ReLU())
        self.age, self.sex = nn.Linear(64, 1), nn.Linear(64, 2)

    def forward(self, x):
        shared = self.trunk(x)
        return self.age(shared).squeeze(-1), self.sex(shared)


def task_norm(model, loss, retain_graph):
    loss.backward(retain_graph=retain_graph)
    weight = model.trunk[0].weight
    norm = weight.grad.norm().item()
    return norm


def train(steps):
    model = MultiTask()
    optimizer = torch.optim.Adam(model.parameters())
    norms = {"age": [], "sex": []}
    for _ in range(steps):
        x = torch.randn(48, 20)
        age, sex = model(x)
        optimizer.zero_grad()
        loss_age = (age - x[:, 0]).abs().mean()
        loss_sex = nn.functional.cross_entropy(sex, (x[:, 1] > 0).long())
        norms["age"].append(task_norm(model, loss_age, retain_graph=True))
        norms["sex"].append(task_norm(model, loss_sex, retain_graph=False))
        optimizer.step()
    return norms


if __name__ == "__main__":
    torch.manual_seed(0)
    norms = train(int(os.environ.get("STEPS", "40")))
    print({name: round(sum(values) / len(values), 4) for name, values in norms.items()})
