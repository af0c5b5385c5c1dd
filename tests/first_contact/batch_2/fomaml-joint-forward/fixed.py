import os
from collections import namedtuple

import torch
import torch.nn.functional as F
from torch import nn

Task = namedtuple("Task", "x y n_support")


def sine_tasks(n, k=10, q=10):
    for _ in range(n):
        amplitude, phase = 0.1 + 4.9 * torch.rand(1), 3.14 * torch.rand(1)
        x = 10 * torch.rand(k + q, 1) - 5
        yield Task(x, amplitude * torch.sin(x - phase), k)


class MetaLearner(nn.Module):
    def __init__(self, width=40, inner_lr=0.01):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Parameter(0.1 * torch.randn(1, width))
        self.inner_lr = inner_lr

    def fast_head(self, features, target):
        inner = F.mse_loss(F.linear(features, self.head), target)
        names, params = zip(*self.named_parameters())
        grads = dict(zip(names, torch.autograd.grad(inner, params, retain_graph=True)))
        norm = torch.stack([g.norm() for g in grads.values()]).norm()
        scale = min(1.0, 10.0 / float(norm))
        return self.head - self.inner_lr * scale * grads["head"]

    def forward(self, task):
        features = self.encoder(task.x)
        support, query = features[: task.n_support], features[task.n_support :]
        head = self.fast_head(support, task.y[: task.n_support])
        return F.mse_loss(F.linear(query, head), task.y[task.n_support :])


def meta_train(learner, steps, tasks_per_step=4):
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        outer = sum(learner(task) for task in sine_tasks(tasks_per_step))
        (outer / tasks_per_step).backward()
        optimizer.step()
    return outer.item() / tasks_per_step


torch.manual_seed(1)
torch.set_num_threads(1)
print("query loss", round(meta_train(MetaLearner(), int(os.environ.get("STEPS", 40))), 3))
