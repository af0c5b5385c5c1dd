"""What a store in memory costs beside a dict under a lock, and what it costs to read a tensor as another framework's.

Every row is timed in turns with what it is compared to, in one run; the ratio is the median over turns. Processor time
of the process, so that other work on the machine counts little. Writes benchmarks/store_cost.md.
"""

from __future__ import annotations

import itertools
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy
import torch

import tenure
from tenure.frameworks import exchange

QUICK = "--quick" in sys.argv
TURNS = 5 if QUICK else 20


def seconds(body: Callable[[], object], count: int) -> float:
    start = time.process_time()
    for _ in itertools.repeat(None, count):
        body()
    return (time.process_time() - start) / count


def compared(ours: Callable[[], object], theirs: Callable[[], object], count: int) -> tuple[float, float, float]:
    """Seconds of each and the ratio: medians over turns, the order changing from turn to turn."""
    pairs = []
    for turn in range(TURNS):
        if turn % 2:
            other = seconds(theirs, count)
            pairs.append((seconds(ours, count), other))
        else:
            mine = seconds(ours, count)
            pairs.append((mine, seconds(theirs, count)))
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return mine, other, statistics.median(one / two for one, two in pairs if two)


def looks() -> list[tuple[str, Callable[[], object]]]:
    store = tenure.Store("memory:")
    store["encoder/w"] = tensor = numpy.ones(1024, "float32")
    store.update({f"layer{number}/w": tensor for number in range(100)})
    below = store.scope("encoder")

    def lease() -> None:
        with store.lease("encoder/w"):
            pass

    return [
        ("`store[name]`", lambda: store["encoder/w"]),
        ("`store.scope(prefix)[name]`", lambda: below["w"]),
        ("`store.get(name)`", lambda: store.get("encoder/w")),
        ("`store.read(name)`, with its version", lambda: store.read("encoder/w")),
        ("`store[name] = tensor`", lambda: store.put("encoder/w", tensor)),
        ("`with store.lease(name)`", lease),
    ]


def micro(value: float) -> str:
    return f"{value * 1e6:.2f} µs"


def main() -> None:
    lock, plain = threading.Lock(), {"encoder/w": numpy.ones(1)}

    def under_lock() -> object:
        with lock:
            return plain["encoder/w"]

    rows = []
    for name, body in looks():
        mine, other, ratio = compared(body, under_lock, 2_000 if QUICK else 10_000)
        rows.append(f"| {name} | {micro(mine)} | {micro(other)} | {ratio:.2f} |")
        print(rows[-1])
    count = (1 if QUICK else 64) * 2**20
    sources = {
        "torch": torch.ones(count // 4),
        "jax": jax.numpy.ones(count // 4),
        "numpy": exchange.into(torch.ones(count // 4), "numpy").tensor,
        "tensorflow": exchange.into(torch.ones(count // 4), "tensorflow").tensor,
    }
    shared = []
    store = tenure.Store("memory:")
    for (source, tensor), like in itertools.product(sources.items(), exchange.NAMES):
        if source == like:
            continue
        store["w"] = tensor
        copied = store.read("w", like=like).copied
        mine, other, ratio = compared(
            lambda like=like: store.read("w", like=like), exchange.into(tensor, "numpy").tensor.copy, 3
        )
        shared.append(f"| {source} | {like} | {'yes' if copied else 'no'} | {micro(mine)} | {ratio:.4f} |")
        print(shared[-1])
    if QUICK:
        return
    text = [
        "# What a store in memory costs",
        "",
        "Compared with a look-up in a dict under a `threading.Lock` (`with lock: d[name]`), called the same way, alternating;",
        "processor time, medians over rounds. Made by `python benchmarks/store_cost.py`.",
        "",
        f"Python {platform.python_version()}, torch {torch.__version__}, jax {jax.__version__}, {platform.machine()}.",
        "",
        "| call | time | dict under a lock | ratio |",
        "|---|---|---|---|",
        *rows,
        "",
        "Readers take no lock: a look-up in a dict is one step of the interpreter, and a name is changed by one assignment.",
        "",
        "## As a tensor of another framework",
        "",
        f"`store.read(name, like=…)` of {count // 2**20} MiB of float32 on the host, compared with a copy of those bytes.",
        "",
        "| put by | read as | copied | time | part of a copy |",
        "|---|---|---|---|---|",
        *shared,
        "",
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(text))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
