import os
import time
from contextlib import contextmanager

import torch
from torch import nn


class DeviceStats:
    """Sums on the device, so that reading them costs one synchronisation for each report."""

    def __init__(self, device="cpu"):
        self.device = device
        self.sums = {}
        self.steps = 0

    def stat(self, name):
        if name not in self.sums:
            self.sums[name] = torch.zeros((), device=self.device)
        return self.sums[name]

    def record(self, **values):
        for name, value in values.items():
            self.stat(name).add_(value)
        self.steps += 1

    def report(self):
        return {name: round((total / self.steps).item(), 4) for name, total in self.sums.items()}


class MaskedLM(nn.Module):
    def __init__(self, vocabulary=512, dim=48, length=32):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim)
        self.positions = nn.Parameter(0.02 * torch.randn(length, dim))
        self.mixer = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.out = nn.Linear(dim, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        return self.out(x + self.mixer(x.mean(1, keepdim=True) + x))


def masked_batch(batch_size=16, length=32, vocabulary=512):
    start = torch.randint(4, vocabulary - length, (batch_size, 1))
    target = start + torch.arange(length)
    mask = torch.rand(batch_size, length) < 0.15
    return target.masked_fill(mask, 0), target, mask


def token_entropy(log_probs):
    return -(log_probs.exp() * log_probs).sum(-1).mean()


@contextmanager
def stopwatch(label):
    started = time.perf_counter()
    yield
    print(label, "done" if time.perf_counter() > started else "?")


def pretrain(model, optimizer, stats, steps):
    for _ in range(steps):
        ids, target, mask = masked_batch()
        log_probs = model(ids).log_softmax(-1)
        loss = -log_probs.gather(-1, target.unsqueeze(-1)).squeeze(-1)[mask].mean()
        loss.backward()
        stats.record(average_loss=loss.detach(), entropy=token_entropy(log_probs.detach()))
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = MaskedLM()
    stats = DeviceStats()
    with stopwatch("pretraining"):
        pretrain(model, torch.optim.AdamW(model.parameters(), lr=1e-3), stats, int(os.environ.get("STEPS", "40")))
    print(stats.report())
