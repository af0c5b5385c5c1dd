import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "40"))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())

    @torch.inference_mode()
    def encode(self, images):
        return self.features(images)


def extract(backbone, loader):
    backbone.eval()
    feats, labels = [], []
    for images, targets in loader:
        feats.append(backbone.encode(images))
        labels.append(targets)
    return feats, labels


def train_probe(feats, labels, steps):
    probe = nn.Linear(feats[0].shape[1], 4)
    optimizer = torch.optim.SGD(probe.parameters(), lr=0.5, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        x, y = feats[step % len(feats)], labels[step % len(feats)]
        optimizer.zero_grad()
        logits = probe(x)
        loss = criterion(logits, y)
        loss.backward()
        optimizer.step()
    return probe, loss.item()


torch.manual_seed(0)
images = torch.rand(96, 3, 16, 16)
targets = (images.mean((1, 2, 3)) * 40).long() % 4
loader = DataLoader(TensorDataset(images, targets), batch_size=24)
feats, labels = extract(Backbone(), loader)
probe, loss = train_probe(feats, labels, STEPS)
print("probe loss", round(loss, 4))
