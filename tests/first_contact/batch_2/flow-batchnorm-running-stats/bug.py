"""Masked affine flow on two moons, with batch norm between the couplings."""
import math
import os

import torch
from torch import nn


class BatchNorm(nn.Module):
    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.eps = eps
        self.unconstrained_weight = nn.Parameter(math.log(math.e - 1) * torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.zeros(features))

    @property
    def weight(self):
        return nn.functional.softplus(self.unconstrained_weight) + self.eps

    def forward(self, inputs):
        if self.training:
            mean, var = inputs.mean(0), inputs.var(0)
            self.running_mean.mul_(1 - self.momentum).add_(mean * self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(var * self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        outputs = self.weight * ((inputs - mean) / torch.sqrt(var + self.eps)) + self.bias
        logdet = torch.sum(torch.log(self.weight) - 0.5 * torch.log(var + self.eps))
        return outputs, logdet


class Coupling(nn.Module):
    def __init__(self, flip, hidden=32):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 2))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        if self.flip:
            a, b = b, a
        shift, log_scale = self.net(a).chunk(2, 1)
        b = b * log_scale.tanh().exp() + shift
        return torch.cat((b, a) if self.flip else (a, b), 1), log_scale.tanh().sum(1)


class Flow(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.transforms = nn.ModuleList()
        for i in range(layers):
            self.transforms.append(Coupling(i % 2 == 1))
            self.transforms.append(BatchNorm(2))

    def log_prob(self, x):
        total = torch.zeros(len(x))
        for transform in self.transforms:
            x, logdet = transform(x)
            total = total + logdet
        return total - 0.5 * x.pow(2).sum(1) - math.log(2 * math.pi)


torch.manual_seed(0)
torch.set_num_threads(1)
flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
for step in range(int(os.environ.get("STEPS", "40"))):
    angle = math.pi * torch.rand(128, 1)
    x = torch.cat((angle.cos(), angle.sin()), 1) + 0.1 * torch.randn(128, 2)
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"nll {loss.item():.3f}")
