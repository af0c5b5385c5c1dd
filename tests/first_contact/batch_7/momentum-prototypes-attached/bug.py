import os

import torch
import torch.nn.functional as F
from torch import nn


class PrototypeBank:
    """One running mean of the features of each class."""

    def __init__(self, classes, dim, momentum=0.9):
        self.momentum = momentum
        self.prototypes = {c: F.normalize(torch.randn(dim), dim=0) for c in range(classes)}

    def similarities(self, features, temperature=0.1):
        bank = torch.stack([self.prototypes[c] for c in sorted(self.prototypes)])
        return features @ F.normalize(bank, dim=1).T / temperature

    def update(self, features, labels):
        for c in labels.unique().tolist():
            mean = features[labels == c].mean(0)
            self.prototypes[c] = self.momentum * self.prototypes[c] + (1 - self.momentum) * mean


class Embedder(nn.Module):
    def __init__(self, inputs=40, dim=24):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        return F.normalize(self.backbone(x), dim=1)


class DomainAdaptation:
    """Source batches are labelled; target batches take the label of the nearest prototype."""

    def __init__(self, embedder, bank, lr=1e-3):
        self.embedder = embedder
        self.bank = bank
        self.optimizer = torch.optim.Adam(embedder.parameters(), lr=lr)

    def step(self, source, labels, target):
        features = self.embedder(source)
        loss = F.cross_entropy(self.bank.similarities(features), labels)
        scores = self.bank.similarities(self.embedder(target))
        confident = scores.softmax(1).max(1).values > 0.8
        if confident.any():
            loss = loss + 0.1 * F.cross_entropy(scores[confident], scores[confident].argmax(1))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.bank.update(features, labels)
        return loss.item()


def domains(steps, classes=5):
    centres = 2 * torch.randn(classes, 40)
    shift = 0.3 * torch.randn(40)
    for _ in range(steps):
        labels = torch.randint(classes, (32,))
        source = centres[labels] + torch.randn(32, 40)
        yield source, labels, centres[torch.randint(classes, (32,))] + shift + torch.randn(32, 40)


if __name__ == "__main__":
    torch.manual_seed(2)
    torch.set_num_threads(1)
    adaptation = DomainAdaptation(Embedder(), PrototypeBank(5, 24))
    history = [adaptation.step(*batch) for batch in domains(int(os.environ.get("STEPS", "40")))]
    print(f"loss {history[0]:.3f} -> {history[-1]:.3f}")
