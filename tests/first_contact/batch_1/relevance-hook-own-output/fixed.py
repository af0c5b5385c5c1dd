"""Epsilon rule relevance propagation through a small classifier."""
import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", 40))


class EpsilonRule:
    def __init__(self, module, eps=1e-6):
        self.eps = eps
        self.handle = module.register_forward_hook(self.forward)
        self.inp = self.out = None

    def forward(self, module, inputs, output):
        self.inp = inputs[0]
        self.out = output
        output.register_hook(lambda grad: self.backward(module, grad))

    def backward(self, module, grad):
        z = self.out.detach()
        return grad * z.sign() / (z.abs() + self.eps)

    def remove(self):
        self.handle.remove()


class Composite:
    def __init__(self, model):
        self.rules = [EpsilonRule(m) for m in model.modules() if isinstance(m, nn.Linear)]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for rule in self.rules:
            rule.remove()
            rule.inp = rule.out = None
        return False


def attribute(model, x, target):
    x = x.clone().requires_grad_(True)
    with Composite(model):
        scores = model(x)
        (relevance,) = torch.autograd.grad(scores[range(len(x)), target].sum(), x)
    return relevance.abs().sum(1)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 5))
mean = torch.zeros(())
for step in range(STEPS):
    batch = torch.randn(200, 64)
    mean += attribute(net, batch, torch.randint(0, 5, (200,))).mean() / STEPS
print("mean relevance", float(mean))
