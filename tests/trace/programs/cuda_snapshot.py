"""Makes the CUDA snapshots that the tests read, with the allocator's own figures beside them; needs a CUDA device.

python tests/trace/programs/cuda_snapshot.py FOLDER
"""

import gzip
import json
import pickle
import sys
from pathlib import Path

import torch
from torch import nn

OUT = Path(sys.argv[1])
STEPS = 3


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


class Small(nn.Module):
    def __init__(self, words=1024, width=128, depth=2):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


def step(model, optimizer, tokens):
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def figures():
    told = torch.cuda.memory_stats()
    names = ("allocated_bytes", "requested_bytes", "active_bytes", "reserved_bytes", "allocation")
    return {f"{name}.{what}": told[f"{name}.all.{what}"] for name in names for what in ("current", "peak", "allocated")}


def dump(name, **more):
    with gzip.open(OUT / f"{name}.pickle.gz", "wb") as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)
    told = {"torch": torch.__version__, "memory_allocated": torch.cuda.memory_allocated(), **figures(), **more}
    (OUT / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")


def train(name, **recorded):
    """A model trained for some steps; what `recorded` says is given to torch's recorder, before the model is made."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = figures()
    torch.cuda.memory._record_memory_history(**recorded)
    model = Small().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 1024, (8, 64), device="cuda")
    after = []
    for _ in range(STEPS):
        step(model, optimizer, tokens)
        after.append({"allocated": torch.cuda.memory_allocated(), **figures()})
    dump(name, before=before, steps=after)
    torch.cuda.memory._record_memory_history(enabled=None)


warm = torch.randn(64, 64, device="cuda")
warm @ warm  # cuBLAS takes its workspace
del warm
train("cuda", max_entries=100_000, stacks="python")
train("cuda-last-200", max_entries=200, stacks="python", context="alloc")  # the ring has forgotten the beginning
train("cuda-state", enabled="state")  # no history, frames of what is alive
train("cuda-plain", enabled=None)  # neither
