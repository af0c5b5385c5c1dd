import os
import weakref

import torch
from torch import nn


class MaskRegistry:
    """Attention masks by sequence length, shared by all layers."""

    def __init__(self, window):
        self.window = window
        self.masks = weakref.WeakValueDictionary()

    def register(self, length):
        if length not in self.masks:
            position = torch.arange(length)
            distance = position[:, None] - position[None, :]
            self.masks[length] = (distance < 0) | (distance >= self.window)

    def mask(self, length):
        return self.masks[length]


class LocalAttention(nn.Module):
    def __init__(self, dim, registry):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, num_heads=2, batch_first=True)
        self.registry = registry

    def forward(self, x):
        y, _ = self.attention(x, x, x, attn_mask=self.registry.mask(x.shape[1]), need_weights=False)
        return x + y


def main():
    torch.manual_seed(2)
    torch.set_num_threads(1)
    registry = MaskRegistry(window=4)
    model = nn.Sequential(*[LocalAttention(16, registry) for _ in range(2)])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(int(os.environ.get("STEPS", "40"))):
        length = 8 + 4 * (step % 3)
        registry.register(length)
        x = torch.randn(4, length, 16)
        loss = (model(x) - x.roll(1, dims=1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item(), "masks", len(registry.masks))


if __name__ == "__main__":
    main()
