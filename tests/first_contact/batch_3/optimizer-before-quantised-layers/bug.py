import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn


class Conv2dQ(nn.Conv2d):
    """Convolution with weights of nbits and a straight-through gradient."""

    def __init__(self, *args, nbits=4, **kwargs):
        super().__init__(*args, **kwargs)
        self.nbits = nbits

    def forward(self, x):
        levels = 2 ** (self.nbits - 1) - 1
        scale = self.weight.detach().abs().max() / levels
        quantised = (self.weight / scale).round() * scale
        weight = self.weight + (quantised - self.weight).detach()
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


def replace_conv_recursively(module, nbits):
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d):
            new = Conv2dQ(child.in_channels, child.out_channels, child.kernel_size, child.stride, child.padding, nbits=nbits)
            new.load_state_dict(child.state_dict())
            setattr(module, name, new)
        else:
            replace_conv_recursively(child, nbits)


def create_model():
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
        nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qw", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--iters", type=int, default=int(os.environ.get("STEPS", "40")))
    args = parser.parse_args([])

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = create_model()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    replace_conv_recursively(model, nbits=args.qw)

    before = model[0][0].weight.detach().clone()
    patterns = torch.rand(4, 1, 12, 12)
    for i in range(args.iters):
        target = torch.randint(0, 4, (32,))
        output = model(patterns[target] + 0.3 * torch.randn(32, 1, 12, 12))
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    moved = (model[0][0].weight - before).abs().mean().item()
    print(f"loss {loss.item():.3f}, first convolution moved by {moved:.5f}")


if __name__ == "__main__":
    main()
