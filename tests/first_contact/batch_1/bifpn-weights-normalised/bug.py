import os

import torch
import torch.nn as nn
import torch.nn.functional as F


class SeparableConv(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(F.silu(x)))


class BiFPNBlock(nn.Module):
    def __init__(self, feature_size=16, epsilon=0.0001):
        super().__init__()
        self.epsilon = epsilon
        self.p4_td = SeparableConv(feature_size)
        self.p3_td = SeparableConv(feature_size)
        self.w1 = nn.Parameter(torch.ones(2, 2))
        self.w1_relu = nn.ReLU()

    def forward(self, p3, p4, p5):
        w1 = self.w1_relu(self.w1)
        w1 /= torch.sum(w1, dim=0) + self.epsilon
        p4_td = self.p4_td(w1[0, 0] * p4 + w1[1, 0] * F.interpolate(p5, scale_factor=2))
        p3_td = self.p3_td(w1[0, 1] * p3 + w1[1, 1] * F.interpolate(p4_td, scale_factor=2))
        return p3_td, p4_td, p5


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.fpn = BiFPNBlock()
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, images):
        p3 = self.stem(images)
        p4, p5 = F.max_pool2d(p3, 2), F.max_pool2d(p3, 4)
        return [self.head(p) for p in self.fpn(p3, p4, p5)]


def train(steps):
    model = Detector()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        outputs = model(torch.rand(2, 3, 64, 64))
        loss = sum(out.pow(2).mean() for out in outputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    train(int(os.environ.get("STEPS", "40")))
