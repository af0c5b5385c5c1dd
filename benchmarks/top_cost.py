"""What being watched by `tenure top` costs a traced training, as a ratio to the same one that nobody watches.

    top_cost.py [CYCLES]

One traced process trains in rounds, with a `tenure top` attached, in a terminal of its own, on another core. A cycle is three
rounds: in one `top` looks on, in the two others it is paused (its key p). What the two differ by is the noise of the method,
and is told beside. Writes benchmarks/top_cost.md.
"""

from __future__ import annotations

import os
import platform
import pty
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
from ratios import told

CYCLES = int(sys.argv[1]) if len(sys.argv) > 1 else 40
SECONDS = 1.2  # of a round: `top` looks once a second
BEFORE = 0.6  # seconds of training before each round, in which `top` reads what it has missed; they do not count
# The model, its width, and where it is trained.
JOBS = [("transformer, d=32", 32, "cpu"), ("transformer, d=128", 128, "cpu")]
ON_CUDA = [("launch-bound transformer, d=32", 32, "cuda"), ("GPT-2 small, bf16, 8 x 1024", 0, "cuda")]
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
    before, seconds = map(float, line.split())
    end = time.perf_counter() + before
    while time.perf_counter() < end:
        train(model, optimizer, batch)  # which waits for the loss
    wall, own, count = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() < wall + seconds:
        train(model, optimizer, batch)
        count += 1
    print((time.perf_counter() - wall) / count, (time.process_time() - own) / count, flush=True)
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
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def leave(self) -> None:
        """As the user would."""
        os.write(self._here, b"q")
        if self._process.wait(120) != 0:
            raise RuntimeError("top failed")
        self._thread.join()
        os.close(self._here)


def measure(name: str, width: int, device: str, scratch: Path) -> str:
    """Cycles of three rounds, the watched one in each place as often; a line of the table."""
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

        def step(*, watched: bool) -> tuple[float, float, float]:
            """Wall and processor time of a step, and what top took of its core."""
            top.go_on(watched)
            began, used = time.perf_counter(), top.used()
            process.stdin.write(f"{BEFORE} {SECONDS}\n")
            process.stdin.flush()
            wall, own = map(float, process.stdout.readline().split())
            return wall, own, (top.used() - used) / (time.perf_counter() - began)

        step(watched=False), step(watched=True)
        cycles = []
        for at in range(CYCLES):
            rounds = [step(watched=place == at % 3) for place in range(3)]
            watched = rounds.pop(at % 3)
            cycles.append((watched, *rounds[:: 1 if at % 2 else -1]))
            print(name, at, *(f"{watched[k] * 2 / (rounds[0][k] + rounds[1][k]):.3f}" for k in range(2)), flush=True)
        top.leave()
        process.stdin.close()
        if process.wait(60) != 0:
            raise RuntimeError("the training failed")
    wall, own = (statistics.median(one[at] for _, one, _ in cycles) for at in range(2))
    cells = []
    for at in (1, 0):
        cells.append(told([watched[at] * 2 / (one[at] + other[at]) for watched, one, other in cycles]))
        cells.append(told([one[at] / other[at] for _, one, other in cycles]))
    share = statistics.median(watched[2] for watched, _, _ in cycles)
    return (
        f"| {name} | {wall * 1e3:.1f} ms | {own * 1e3:.1f} ms | {_rows(folder) / wall:,.0f} "
        f"| {' | '.join(cells)} | {share:.0%} |"
    )


def _rows(folder: Path) -> float:
    """Rows a step."""
    from tenure.traces import load

    trace = load(folder)
    return sum(process.events for process in trace.processes) / max(1, len(trace.scanned.steps[0]))


def page(lines: list[str]) -> str:
    """The table so far, and what it says."""
    where = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"""# What being watched costs

One process trains under `tenure run`, with a `tenure top` attached in a terminal of its own, on another core. In cycles of
three rounds of {SECONDS} seconds `top` watches in one and is paused in two; before each round it has {BEFORE} seconds to read what it
has missed. *Watched* is the time of a step while it watches, as a ratio to that of the two other rounds. *Unwatched* is
the ratio of these two to each other, which would be 1 without noise. Both are medians of {CYCLES} cycles, with their
95% intervals. *Processor* is the traced process's own time, all of its threads. The last column is the
share of a core that `top` itself takes. Made by `benchmarks/top_cost.py`.

{datetime.now(tz=UTC):%Y-%m-%d}, torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, one thread{where}.
{len(os.sched_getaffinity(0))} cores, and {os.getloadavg()[1]:.1f} processes that used them: wall times depend on these, too.

| model | step | processor | rows/s | watched, processor | unwatched, processor | watched, wall | unwatched, wall | of a core for top |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}
"""


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    scratch = Path(tempfile.mkdtemp(prefix="tenure-top-"))
    name = "top_cost_cuda.md" if torch.cuda.is_available() else "top_cost.md"
    lines = []
    for job in [*JOBS, *(ON_CUDA if torch.cuda.is_available() else [])]:
        lines.append(measure(*job, scratch))
        (Path(os.environ.get("OUT", HERE)) / name).write_text(page(lines))
    print(page(lines))
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
