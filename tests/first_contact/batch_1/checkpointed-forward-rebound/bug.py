import functools
import os

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


def checkpoint_wrapper(module: nn.Module) -> nn.Module:
    module.forward = functools.partial(_checkpointed_forward, module.forward)
    return module


def _checkpointed_forward(forward, *args):
    return checkpoint(forward, *args, use_reentrant=False)


class Block(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def build(dim: int, depth: int) -> nn.Module:
    return nn.Sequential(*[checkpoint_wrapper(Block(dim)) for _ in range(depth)])


def run_trial(dim: int, depth: int, lr: float) -> float:
    model = build(dim, depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(2):
        x = torch.randn(16, dim)
        loss = (model(x) - x.roll(1, 0)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    trials = int(os.environ.get("STEPS", "40"))
    best = min(run_trial(dim=128, depth=2, lr=10 ** -(2 + i / trials)) for i in range(trials))
    print(f"best of {trials}: {best:.4f}")


if __name__ == "__main__":
    main()
