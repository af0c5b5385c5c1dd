import os

import torch
import torch.nn.functional as F
from torch import nn


class AcceleratedOptimizer:
    def __init__(self, optimizer, gradient_accumulation_steps):
        self.optimizer = optimizer
        self.every = gradient_accumulation_steps
        self.calls = 0

    def step(self):
        self.calls += 1
        if self.calls % self.every == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()


class Accelerator:
    def __init__(self, device="cpu", gradient_accumulation_steps=1):
        self.device = torch.device(device)
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self._models = []
        self._optimizers = []

    def prepare(self, *args):
        return tuple(self._prepare_one(obj) for obj in args)

    def _prepare_one(self, obj):
        if isinstance(obj, nn.Module):
            self._models.append(obj)
            return obj.to(self.device)
        if isinstance(obj, torch.optim.Optimizer):
            optimizer = AcceleratedOptimizer(obj, self.gradient_accumulation_steps)
            self._optimizers.append(optimizer)
            return optimizer
        return obj

    def backward(self, loss):
        (loss / self.gradient_accumulation_steps).backward()

    def free_memory(self):
        self._models.clear()
        self._optimizers.clear()


def fold_indices(n, n_folds, fold):
    held_out = torch.arange(n) % n_folds == fold
    return (~held_out).nonzero().squeeze(1), held_out.nonzero().squeeze(1)


def train_fold(accelerator, x, y, train_idx, valid_idx, epochs=2):
    model = nn.Sequential(nn.Linear(x.shape[1], 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    for _ in range(epochs):
        for idx in train_idx.split(80):
            accelerator.backward(F.mse_loss(model(x[idx]).squeeze(1), y[idx]))
            optimizer.step()
    with torch.no_grad():
        score = F.mse_loss(model(x[valid_idx]).squeeze(1), y[valid_idx]).item()
    del model, optimizer
    return score


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x = torch.randn(160, 20)
    y = x[:, 0] * x[:, 1]
    accelerator = Accelerator()
    n_folds = int(os.environ.get("STEPS", "40"))
    total = 0.0
    for fold in range(n_folds):
        total += train_fold(accelerator, x, y, *fold_indices(len(x), n_folds, fold))
    print(f"{n_folds}-fold error {total / n_folds:.3f}, models held: {len(accelerator._models)}")


if __name__ == "__main__":
    main()
