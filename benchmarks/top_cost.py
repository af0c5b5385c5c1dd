"""What being watched by `tenure top` costs a traced training, as a ratio to the same one that nobody watches.

    top_cost.py [ROUNDS]

One traced process trains in short rounds, with a `tenure top` attached, in a terminal of its own, on another core. In every
other round it is paused (its key p); when it goes on it reads what it has missed. Writes benchmarks/top_cost.md.
"""

from __future__ import annotations

import os
import platform
import pty
import random
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
# The model, its width, where it is trained, and steps a round.
JOBS = [("transformer, d=32", 32, "cpu", 20), ("transformer, d=128", 128, "cpu", 4)]
ON_CUDA = [("launch-bound transformer, d=32", 32, "cuda", 60), ("GPT-2 small, bf16, 8 x 1024", 0, "cuda", 10)]
HERE = Path(__file__).parent
TRAINING = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import torch
from models import gpt2, train, transformer

torch.set_num_threads(1)
os.sched_setaffinity(0, {int(sys.argv[3])})
width, device = int(sys.argv[2]), sys.argv[4]
model, batch = transformer(width, device) if width else gpt2(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(20):
    train(model, optimizer, batch)
print("ready", flush=True)
for line in sys.stdin:
    wall, own = time.perf_counter(), time.process_time()
    for _ in range(int(line)):
        train(model, optimizer, batch)  # which waits for the loss
    print(time.perf_counter() - wall, time.process_time() - own, flush=True)
"""


class Watched:
    """`tenure top` in a terminal, as somebody would look at it."""

    def __init__(self, folder: Path, core: int) -> None:
        self._here, there = pty.openpty()
        words = [sys.executable, "-m", "tenure", "top", str(folder)]
        self._process = subprocess.Popen(
            words, stdin=there, stdout=there, stderr=there, env={**os.environ, "TERM": "xterm-256color"}
        )
        os.sched_setaffinity(self._process.pid, {core})
        os.close(there)
        self._shown = b""
        self._going = True
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        end = time.monotonic() + 60
        while b"running" not in self._shown:
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError(self._shown[-2000:])
            time.sleep(0.05)
        time.sleep(1)  # by now it has caught up
        self.go_on(False)

    def go_on(self, whether: bool) -> None:
        """Look on, or stand still."""
        if whether != self._going:
            self._going = whether
            os.write(self._here, b"p")

    def _read(self) -> None:
        while select.select([self._here], [], [])[0]:
            try:
                self._shown = (self._shown + os.read(self._here, 1 << 16))[-100_000:]
            except OSError:  # it has left
                return

    def used(self) -> float:
        told = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")

    def leave(self) -> None:
        """As the user would."""
        os.write(self._here, b"q")
        if self._process.wait(120) != 0:
            raise RuntimeError("top failed")
        self._thread.join()
        os.close(self._here)


def measure(name: str, width: int, device: str, count: int, scratch: Path) -> str:
    """Pairs of rounds, the watched one now first and now second; a line of the table."""
    cores = sorted(os.sched_getaffinity(0))
    script = scratch / "train.py"
    script.write_text(TRAINING)
    folder = scratch / f"trace-{device}-{width}"
    command = [str(script), str(HERE), str(width), str(cores[0]), device]
    words = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", str(folder), *command]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        top = Watched(folder, cores[-1])

        def steps(*, watched: bool) -> tuple[float, float]:
            top.go_on(watched)
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
            wall, own = process.stdout.readline().split()
            return float(wall) / count, float(own) / count

        steps(watched=False), steps(watched=True)
        pairs, began, watched = [], top.used(), 0.0
        for at in range(ROUNDS):
            order = (True, False) if at % 2 else (False, True)
            found = {one: steps(watched=one) for one in order}
            pairs.append((found[False], found[True]))
            watched += found[True][0] * count
            print(name, at, *(f"{found[True][k] / found[False][k]:.3f}" for k in range(2)), flush=True)
        share = (top.used() - began) / watched
        top.leave()
        process.stdin.close()
        if process.wait(60) != 0:
            raise RuntimeError("the training failed")
    plain = [one for one, _ in pairs]
    walls, owns = ([during[at] / before[at] for before, during in pairs] for at in range(2))
    rows = _rows(folder)
    seconds = statistics.median(one[0] for one in plain)
    own = statistics.median(one[1] for one in plain)
    return (
        f"| {name} | {seconds * 1e3:.1f} ms | {own * 1e3:.1f} ms | {rows / seconds:,.0f} "
        f"| {_told(owns)} | {_told(walls)} | {share:.0%} |"
    )


def _told(ratios: list[float]) -> str:
    """The median, and where it would lie in 95 of 100 such runs, by drawing from these ratios again and again."""
    draws = random.Random(0)
    medians = sorted(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.3f} ({medians[50]:.3f} to {medians[-51]:.3f})"


def _rows(folder: Path) -> float:
    """Rows a step."""
    from tenure.traces import load

    trace = load(folder)
    return sum(process.events for process in trace.processes) / max(1, len(trace.scanned.steps[0]))


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    scratch = Path(tempfile.mkdtemp(prefix="tenure-top-"))
    lines = [measure(*job, scratch) for job in [*JOBS, *(ON_CUDA if torch.cuda.is_available() else [])]]
    where = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    busy = os.getloadavg()[1]
    text = [
        "# What being watched costs",
        "",
        "One process trains under `tenure run`, in short rounds, with a `tenure top` attached in a terminal of its own, on another",
        "core. In every other round `top` is paused; when it goes on, it reads what it has missed. The ratio is that of the step",
        f"while it is watched to the step while it is not, the median of {ROUNDS} pairs of rounds, and the range in which that median lies",
        "in 95 of 100 such runs. *Processor time* is the traced process's own, all of its threads. The last column is what `top`",
        "itself took of its core while it looked on. Made by `benchmarks/top_cost.py`.",
        "",
        f"{datetime.now(tz=UTC):%Y-%m-%d}, torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, one thread{where}.",
        f"{len(os.sched_getaffinity(0))} cores, and {busy:.1f} processes that wanted them: wall times tell what the others did, too.",
        "",
        "| model | step | processor time of a step | rows/s | ratio, processor time | ratio, wall time | of a core for top |",
        "|---|---|---|---|---|---|---|",
        *lines,
        "",
    ]
    out = Path(os.environ.get("OUT", HERE)) / ("top_cost_cuda.md" if where else "top_cost.md")
    out.write_text("\n".join(text))
    print("\n".join(text))
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
