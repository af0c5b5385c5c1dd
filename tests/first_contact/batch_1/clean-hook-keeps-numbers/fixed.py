import os
from collections import defaultdict

import torch
import torch.nn as nn


class ActivationStats:
    def __init__(self, model):
        self.values = defaultdict(list)
        self.handles = [
            module.register_forward_hook(self.make_hook(name))
            for name, module in model.named_modules()
            if isinstance(module, (nn.ReLU, nn.Linear))
        ]

    def make_hook(self, name):
        def hook(module, inputs, output):
            self.values[name].append(output.detach().abs().mean().item())

        return hook

    def report(self):
        return {name: sum(v) / len(v) for name, v in self.values.items()}


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
stats = ActivationStats(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(os.environ.get("STEPS", "40"))):
    x = torch.randn(32, 16)
    loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for name, value in stats.report().items():
    print(f"{name}: {value:.4f}")
