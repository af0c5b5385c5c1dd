import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    inner_lr: float = 1.0
    context: int = 8
    tasks_per_batch: int = 4
    shots: int = 10
    hidden: int = 128


class ContextRegressor(nn.Module):
    """A network of which a few inputs, the context, are learned for each task."""

    def __init__(self, config):
        super().__init__()
        self.inputs = nn.Linear(1 + config.context, config.hidden)
        self.hidden = nn.Linear(config.hidden, config.hidden)
        self.outputs = nn.Linear(config.hidden, 1)

    def forward(self, x, context):
        x = torch.cat((x, context.expand(len(x), -1)), 1)
        return self.outputs(torch.tanh(self.hidden(torch.tanh(self.inputs(x)))))


class SineTasks:
    def __iter__(self):
        while True:
            amplitude, phase = 0.1 + 4.9 * torch.rand(1), 3.14 * torch.rand(1)
            yield lambda n: (x := 10 * torch.rand(n, 1) - 5, amplitude * torch.sin(x - phase))


class MetaLearner:
    def __init__(self, config):
        self.config = config
        self.model = ContextRegressor(config)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def adapt(self, x, y):
        context = torch.zeros(self.config.context, requires_grad=True)
        F.mse_loss(self.model(x, context), y).backward(create_graph=True)
        return context - self.config.inner_lr * context.grad

    def step(self, tasks):
        meta_loss = 0.0
        for _, draw in zip(range(self.config.tasks_per_batch), tasks):
            context = self.adapt(*draw(self.config.shots))
            query_x, query_y = draw(self.config.shots)
            meta_loss = meta_loss + F.mse_loss(self.model(query_x, context), query_y)
        self.optimizer.zero_grad()
        meta_loss.backward()
        self.optimizer.step()
        return meta_loss.item() / self.config.tasks_per_batch


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    learner, tasks = MetaLearner(Config()), iter(SineTasks())
    for iteration in range(int(os.environ.get("STEPS", "40"))):
        loss = learner.step(tasks)
    print("meta loss", round(loss, 3))
