"""What a scope around a training step costs, as a ratio to the same step without, interleaved in one run.

Writes benchmarks/scope_cost.md.
"""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import nn

import tenure
from tenure import native


def transformer(width: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(width, width))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def measure(width: int, device: str, rounds: int, length: int = 64, batch: int = 16) -> tuple[float, float, float]:
    torch.manual_seed(0)
    model = transformer(width).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(batch, length, width, device=device)
    times: dict[str, list[float]] = {"plain": [], "scope": []}
    for turn in range(2 * rounds + 10):
        kind = ("plain", "scope")[turn % 2]
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        with tenure.scope("step") if kind == "scope" else contextlib.nullcontext():
            step(model, optimizer, x)
        if device == "cuda":
            torch.cuda.synchronize()
        if turn >= 10:
            times[kind].append(time.perf_counter() - start)
    ratios = [scoped / plain for plain, scoped in zip(times["plain"], times["scope"], strict=True)]
    return statistics.median(times["plain"]), statistics.median(times["scope"]), statistics.median(ratios)


def main() -> None:
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    quick = "--quick" in sys.argv
    rows = []
    for width in (32, 128):
        plain, scoped, ratio = measure(width, device, rounds=10 if quick else 150)
        rows.append(f"| {device} | d={width} | {plain * 1e3:.2f} ms | {scoped * 1e3:.2f} ms | {ratio:.3f} |")
        print(rows[-1])
    hook = "native" if native.load("tenure_births", "births.c") is not None else "Python twin"
    where = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    text = [
        "# What a scope costs",
        "",
        "A training step of a 4-layer transformer (batch 16, length 64, one CPU thread) with and without a scope around",
        "it, interleaved; the ratio is the median over pairs. Made by `make bench`.",
        "",
        f"torch {torch.__version__}, Python {platform.python_version()}, {where}, creation hook: {hook}.",
        "",
        "| device | model | step | step in a scope | ratio |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]
    out = Path(os.environ.get("OUT", Path(__file__).parent))
    (out / f"scope_cost{'_cuda' if device == 'cuda' else ''}.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
