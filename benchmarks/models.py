"""The models that are trained here, and one training step."""

from __future__ import annotations

import torch
from torch import nn


def transformer(width: int, device: str):
    """Four layers; with d=32 the time goes into operations, not into arithmetic."""
    torch.manual_seed(0)
    inner, batch, length = (2 * width, 2, 16) if width < 64 else (4 * width, 8, 64)
    layer = nn.TransformerEncoderLayer(width, 4, inner, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(width, width))
    x = torch.randn(batch, length, width)
    return model.to(device), (x.to(device), x.to(device))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(
            nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d)
        )
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """GPT-2 small: 12 layers, width 768, 12 heads, 50,257 words, 1,024 places."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.blocks = nn.ModuleList(Block(768, 12) for _ in range(12))
        self.norm = nn.LayerNorm(768)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(self.norm(x), self.words.weight)


def gpt2(device: str, batch: int = 8, length: int = 1024):
    torch.manual_seed(0)
    tokens = torch.randint(50257, (batch, length + 1), device=device)
    return GPT2().to(device, torch.bfloat16), (tokens[:, :-1], tokens[:, 1:])


def train(model, optimizer, batch) -> float:
    x, target = batch
    optimizer.zero_grad()
    out = model(x)
    if target.is_floating_point():
        loss = (out - target).square().mean()
    else:
        loss = nn.functional.cross_entropy(out.flatten(0, 1).float(), target.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()
