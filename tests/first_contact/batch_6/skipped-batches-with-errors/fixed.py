"""Energies of random molecules; a batch in which two atoms coincide has no finite energy and is skipped."""

import os
from collections import Counter

import torch
from torch import nn


class NonFiniteEnergy(RuntimeError):
    pass


class PairPotential(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, positions):
        i, j = torch.triu_indices(positions.shape[1], positions.shape[1], offset=1)
        distances = (positions[:, i] - positions[:, j]).norm(dim=-1)
        features = torch.stack([distances, 1 / distances], dim=-1)
        energy = self.net(features).squeeze(-1).sum(-1)
        if not torch.isfinite(energy).all():
            raise NonFiniteEnergy(f"{int((~torch.isfinite(energy)).sum())} molecules with coinciding atoms")
        return energy


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.skipped = []

    def train_batch(self, positions, target):
        loss = (self.model(positions) - target).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self, batches):
        loss = float("nan")
        for number, (positions, target) in enumerate(batches):
            try:
                loss = self.train_batch(positions, target)
            except NonFiniteEnergy as error:
                self.skipped.append((number, type(error).__name__))
        return loss

    def summary(self):
        return Counter(name for _, name in self.skipped)


def molecules(steps, batch_size=16, atoms=12):
    for step in range(steps):
        positions = 3 * torch.randn(batch_size, atoms, 3)
        if step % 2:
            positions[0, 1] = positions[0, 0]
        yield positions, positions.flatten(1).std(dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    trainer = Trainer(PairPotential())
    loss = trainer.run(molecules(int(os.environ.get("STEPS", "40"))))
    print("loss", round(loss, 2), "skipped", dict(trainer.summary()))
