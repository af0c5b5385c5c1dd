import os

import torch
from torch import nn


class _CouplingFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        x1, x2 = x.chunk(2, dim=1)
        gate = torch.sigmoid(x2 @ weight + bias)
        y = torch.cat((x1 * gate, x2), dim=1)
        ctx.save_for_backward(weight, bias, y)
        return y

    @staticmethod
    def backward(ctx, dy):
        weight, bias, y = ctx.saved_tensors
        y1, x2 = y.chunk(2, dim=1)
        gate = torch.sigmoid(x2 @ weight + bias)
        dy1, dy2 = dy.chunk(2, dim=1)
        dgate = dy1 * (y1 / gate) * gate * (1 - gate)
        dx = torch.cat((dy1 * gate, dy2 + dgate @ weight.t()), dim=1)
        return dx, x2.t() @ dgate, dgate.sum(0)


class ReversibleBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(channels // 2, channels // 2))
        self.bias = nn.Parameter(torch.zeros(channels // 2))

    def forward(self, x):
        return _CouplingFunction.apply(x, self.weight, self.bias)


class SegNet(nn.Module):
    def __init__(self, channels=32):
        super().__init__()
        self.stem = nn.Linear(10, channels)
        self.main = ReversibleBlock(channels)
        self.boundary = ReversibleBlock(channels)
        self.head = nn.Linear(channels, 2)
        self.boundary_head = nn.Linear(channels, 1)

    def forward(self, x):
        x = torch.tanh(self.stem(x))
        return self.head(self.main(x)), self.boundary_head(self.boundary(x))


def train(steps):
    model = SegNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        voxels = torch.randn(256, 10)
        labels = (voxels[:, 0] > 0).long()
        segmentation, boundary = model(voxels)
        loss = nn.functional.cross_entropy(segmentation, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), boundary.detach().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("loss %.3f, boundary %.3f" % train(int(os.environ.get("STEPS", "40"))))
