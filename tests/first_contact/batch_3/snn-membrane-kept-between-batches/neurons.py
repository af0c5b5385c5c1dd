"""Leaky integrate-and-fire neurons with a surrogate gradient."""
import torch
from torch import nn


class _Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mem):
        ctx.save_for_backward(mem)
        return (mem > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (mem,) = ctx.saved_tensors
        return grad / (1 + 25 * mem.abs()) ** 2


class Leaky(nn.Module):
    def __init__(self, beta, threshold=1.0, output=False):
        super().__init__()
        self.beta = beta
        self.threshold = threshold
        self.output = output
        self.mem = None

    def reset(self):
        self.mem = None

    def forward(self, current):
        if self.mem is None:
            self.mem = torch.zeros_like(current)
        spk = _Spike.apply(self.mem - self.threshold)
        self.mem = self.beta * self.mem + current - spk * self.threshold
        return (spk, self.mem) if self.output else spk


def reset(net):
    for module in net.modules():
        if isinstance(module, Leaky):
            module.reset()
