"""What each of the ways into torch that can be switched off gains: the cost of recording with it and without.

    torch_switches.py [ROUNDS [SECONDS]]

Writes benchmarks/torch_switches.md.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import torch
from models import train, transformer
from ratios import told

from tenure.trace import autostart
from tenure.trace.recorder import Recorder

SWITCHES = ("TENURE_TORCH_CONSTANTS", "TENURE_TORCH_LISTS", "TENURE_TORCH_CALLS")
ROUNDS, SECONDS = 30, 0.4


def worker(rounds: int, seconds: float) -> None:
    """Print the ratio of each round: processor time of steps while recorded, and of as many before and after."""
    torch.set_num_threads(1)
    model, batch = transformer(32, "cpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scratch = Path(tempfile.mkdtemp(prefix="tenure-bench-"))

    def steps(count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            train(model, optimizer, batch)
        return time.process_time() - start

    def recorded(count: int) -> float:
        recorder = Recorder(scratch / str(time.perf_counter_ns()))
        autostart.accompany(recorder)
        recorder.start()
        steps(count // 2 + 1)
        took = steps(count)
        recorder.stop()
        shutil.rmtree(recorder.folder)
        return took

    steps(20)
    count = max(10, round(seconds / (steps(10) / 10)))
    recorded(count)
    before = steps(count)
    for _ in range(rounds):
        inside = recorded(count)
        after = steps(count)
        print(2 * inside / (before + after), flush=True)
        before = after
    shutil.rmtree(scratch)


def measured(off: tuple[str, ...], rounds: int, seconds: float) -> str:
    """The ratio with these switched off."""
    environment = os.environ | dict.fromkeys(off, "0")
    command = [sys.executable, "-W", "ignore", __file__, "--work", str(rounds), str(seconds)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return told([float(line) for line in done.stdout.split()])


def main() -> None:
    """The command."""
    if sys.argv[1:2] == ["--work"]:
        worker(int(sys.argv[2]), float(sys.argv[3]))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    lines = []
    for what, off in (("nothing", ()), *((f"`{name}`", (name,)) for name in SWITCHES), ("all three", SWITCHES)):
        lines.append(f"| {what} | {measured(off, rounds, seconds)} |")
        print(lines[-1], flush=True)
    text = [
        "# What undocumented parts of torch save",
        "",
        "Three things make recording torch cheaper, but torch has no public interface for them. Each can be switched off",
        "([limits](../docs/limits.md)). A training step (transformer, d=32, AdamW) takes this much more processor time while it",
        f"is recorded: the median of {rounds} rounds of {seconds:g} s, with its 95% interval.",
        "",
        (
            f"{datetime.now(tz=UTC):%Y-%m-%d}, torch {torch.__version__}, Python {platform.python_version()}, "
            f"{platform.machine()}, one thread. Made by `make bench`."
        ),
        "",
        "| switched off | processor time of a step, as a ratio to the same step untraced |",
        "|---|---|",
        *lines,
        "",
    ]
    (Path(__file__).parent / "torch_switches.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
