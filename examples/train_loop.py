"""A training loop with a leak: the meter keeps the autograd graph of every step."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value):
        self.total = self.total + value
        self.count += 1


def train(steps):
    accuracy = Meter()
    for _ in range(steps):
        x, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
        scores = model(x)
        loss = torch.nn.functional.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracy.add(scores.softmax(1).max(1).values.mean())
    return accuracy.count


train(100)
