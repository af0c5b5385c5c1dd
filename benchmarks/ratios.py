"""Ratios that a noisy machine cannot spoil: two processes do the same at once, one of them with a tool, in turns."""

from __future__ import annotations

import contextlib
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence


def told(ratios: Sequence[float]) -> str:
    """The median, and where it would lie in 95 of 100 such runs, by drawing from these ratios again and again."""
    draws = random.Random(0)
    medians = sorted(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.3f} ({medians[50]:.3f} to {medians[-51]:.3f})"


def work(
    step: Callable[[bool], object],
    tool: Callable[[], contextlib.AbstractContextManager[object]],
    wait: Callable[[], object] = lambda: None,
) -> None:
    """Do as `measure` says, line by line: steps that are told whether they are with the tool, and how long one takes.

    `wait` is for what a device still does.
    """

    def steps(count: int, *, inside: bool) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(count):
            step(inside)
        wait()
        return (time.perf_counter() - start) / count

    for line in sys.stdin:
        what, count = line.split()
        inside = what == "tool"
        with tool() if inside else contextlib.nullcontext():
            steps(int(count) // 2 + 1, inside=inside)  # what a tool does once, at its start, is not the step's cost
            print(steps(int(count), inside=inside), flush=True)


def measure(command: list[str], rounds: int, seconds: float, *, at_once: bool = True) -> tuple[float, float, str]:
    """The seconds of a step without the tool and with it, and the ratio, of two processes that `work`.

    Whatever else the machine does, it does to both. Each has half of the cores, so that they take none from each other.
    What they must share, such as a GPU, they use one after another, not `at_once`.
    """
    cores = sorted(os.sched_getaffinity(0))
    half = max(len(cores) // 2, 1)
    pair = [
        subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, mine)), *command],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for mine in (cores[:half], cores[-half:])
    ]

    def both(*orders: str) -> list[float]:
        found = []
        for process, order in zip(pair, orders, strict=True):
            print(order, file=process.stdin, flush=True)
            if not at_once:
                found.append(float(process.stdout.readline()))
        return found or [float(process.stdout.readline()) for process in pair]

    both("plain 10", "plain 10")
    count = max(10, round(seconds / max(both("plain 10", "plain 10"))))
    both(f"tool {count}", f"tool {count}")
    plain, tool, ratios = [], [], []
    for _ in range(rounds):
        first, other = both(f"tool {count}", f"plain {count}"), both(f"plain {count}", f"tool {count}")
        tool += [first[0], other[1]]
        plain += [first[1], other[0]]
        # Both ways round, so that a process whose cores are slower than the other's is so with the tool and without.
        ratios.append(math.sqrt(first[0] / first[1] * other[1] / other[0]))
    for process in pair:
        process.stdin.close()
        process.wait()
    return statistics.median(plain), statistics.median(tool), told(ratios)
