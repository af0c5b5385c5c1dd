import os
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn


class TimeEncode(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(1, dim)

    def forward(self, t):
        return torch.cos(self.linear(t))


class Memory:
    """What the network remembers of each node, by node number."""

    def __init__(self, dim):
        self.dim = dim
        self.reset()

    def reset(self):
        self.container = defaultdict(lambda: torch.zeros(self.dim))
        self.last_update = defaultdict(float)

    def read(self, nodes):
        return torch.stack([self.container[n] for n in nodes])

    def elapsed(self, nodes, now):
        return torch.tensor([[t - self.last_update[n]] for n, t in zip(nodes, now)])

    def write(self, nodes, values, now):
        for n, value, t in zip(nodes, values, now):
            self.container[n] = value
            self.last_update[n] = t


class TGN(nn.Module):
    def __init__(self, dim=32, edge_dim=4):
        super().__init__()
        self.memory = Memory(dim)
        self.time = TimeEncode(dim)
        self.updater = nn.GRUCell(2 * dim + edge_dim, dim)
        self.embedding = nn.Linear(2 * dim, dim)
        self.link = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def embed(self, nodes, now):
        return self.embedding(torch.cat((self.memory.read(nodes), self.time(self.memory.elapsed(nodes, now))), 1)).relu()

    def forward(self, src, dst, neg, now):
        a, b, c = (self.embed(nodes, now) for nodes in (src, dst, neg))
        return self.link(torch.cat((a, b), 1)).squeeze(1), self.link(torch.cat((a, c), 1)).squeeze(1)

    def remember(self, src, dst, features, now):
        for nodes, others in ((src, dst), (dst, src)):
            state = self.memory.read(nodes)
            message = torch.cat((self.memory.read(others), self.time(self.memory.elapsed(nodes, now)), features), 1)
            self.memory.write(nodes, self.updater(message, state), now)


def interactions(batches, size=16, nodes=24):
    clock = 0.0
    for _ in range(batches):
        src = torch.randint(0, nodes // 2, (size,))
        dst = nodes // 2 + (src + torch.randint(0, 2, (size,))) % (nodes // 2)
        neg = torch.randint(nodes // 2, nodes, (size,))
        now = [clock + i for i in range(size)]
        clock += size
        yield src.tolist(), dst.tolist(), neg.tolist(), torch.randn(size, 4), now


def train(model, optimizer, batches):
    model.train()
    losses = []
    for src, dst, neg, features, now in interactions(batches):
        optimizer.zero_grad()
        positive, negative = model(src, dst, neg, now)
        loss = F.softplus(-positive).mean() + F.softplus(negative).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        model.remember(src, dst, features, now)
    return sum(losses) / len(losses)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tgn = TGN()
    adam = torch.optim.Adam(tgn.parameters(), lr=1e-3)
    print("loss", round(train(tgn, adam, int(os.environ.get("STEPS", "40"))), 3))
