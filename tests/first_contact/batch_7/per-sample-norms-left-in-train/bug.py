"""Gradient norms of single samples by hooks on linear layers, to find mislabelled readings of a sensor board."""

import os

import torch
import torch.nn.functional as F
from torch import nn


class PerSampleNorms:
    def __init__(self, model):
        self.squared = None
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.activations = []
                layer.register_forward_hook(self.capture_activations)
                layer.register_full_backward_hook(self.capture_backprops)

    def capture_activations(self, layer, inputs, output):
        if not layer.training:
            return
        layer.activations.append(inputs[0].detach())

    def capture_backprops(self, layer, grad_input, grad_output):
        activations = layer.activations.pop()
        backprops = grad_output[0] * len(activations)
        squared = activations.pow(2).sum(1) * backprops.pow(2).sum(1) + backprops.pow(2).sum(1)
        self.squared = squared if self.squared is None else self.squared + squared

    def take(self):
        norms, self.squared = self.squared.sqrt(), None
        return norms


def readings(count, channels=96):
    x = torch.randn(count, channels)
    y = (x[:, 0] + 0.5 * x[:, 1] > 0).long()
    flipped = torch.rand(count) < 0.05
    return x, torch.where(flipped, 1 - y, y)


@torch.no_grad()
def accuracy(model, x, y):
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 128), nn.Tanh(), nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 2))
    norms = PerSampleNorms(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    held_out = readings(1024)
    suspicious, best = 0, 0.0
    model.train()
    for _ in range(int(os.environ.get("STEPS", "40"))):
        x, y = readings(64)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        sample_norms = norms.take()
        suspicious += int((sample_norms > 3 * sample_norms.median()).sum())
        best = max(best, accuracy(model, *held_out))
    print(f"best accuracy {best:.3f}, {suspicious} suspicious readings")


if __name__ == "__main__":
    main()
