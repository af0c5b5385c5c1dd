import os
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class LayerCache:
    window: int
    k: Optional[Tensor] = None
    v: Optional[Tensor] = None

    def extend(self, k: Tensor, v: Tensor):
        if self.k is not None:
            k, v = torch.cat((self.k, k), 2), torch.cat((self.v, v), 2)
        self.k, self.v = k[:, :, -self.window :], v[:, :, -self.window :]
        return k, v


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        k, v = cache.extend(k, v)
        past = k.shape[2] - t
        mask = torch.ones(t, past + t, dtype=torch.bool).tril(past)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).reshape(b, t, d))


class SegmentLM(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=2, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))

    def forward(self, tokens, caches):
        x = self.embed(tokens)
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache)
        return x @ self.embed.weight.t()


def segments(text, length):
    for start in range(0, text.shape[1] - 1 - length, length):
        yield text[:, start : start + length], text[:, start + 1 : start + length + 1]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = SegmentLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    book = torch.randint(0, 64, (4, 16 * int(os.environ.get("STEPS", "40")) + 2))
    caches = [LayerCache(window=32) for _ in model.blocks]
    for inputs, targets in segments(book, 16):
        loss = F.cross_entropy(model(inputs, caches).flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.3f}")


main()
