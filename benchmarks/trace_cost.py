"""What recording a training step costs, as a ratio to the same step untraced, beside other tools, all in one run.

    trace_cost.py [ROUNDS [SECONDS]]

Writes benchmarks/trace_cost.md, or trace_cost_cuda.md where there is a CUDA device.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import torch
from models import gpt2, train, transformer
from ratios import measure, work
from torch.utils._python_dispatch import TorchDispatchMode

import tenure
from tenure.trace import autostart
from tenure.trace.recorder import Recorder

NUMBERS = [] if sys.argv[1:2] == ["--work"] else sys.argv[1:3]
ROUNDS = int(NUMBERS[0]) if NUMBERS else 6
SECONDS = float(NUMBERS[1]) if len(NUMBERS) > 1 else 1.0  # of a stretch of steps
SCRATCH = Path(tempfile.mkdtemp(prefix="tenure-bench-"))


class Dispatch(TorchDispatchMode):
    """The usual way to record in Python: each op's outputs with their bytes and stack, weakly, and when they go."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, tuple[object, ...]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        stack = torch._C._profiler.gather_traceback(python=True, script=False, cpp=False)
        for out in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(out, torch.Tensor):
                storage = out.untyped_storage()
                self.seen[storage._cdata] = (str(func), storage.nbytes(), stack, time.perf_counter_ns())
                weakref.ref(out, lambda _, key=storage._cdata: self.seen.pop(key, None))
        return result


@contextlib.contextmanager
def recorded() -> Iterator[None]:
    folder = SCRATCH / str(time.perf_counter_ns())
    recorder = Recorder(folder)
    autostart.accompany(recorder)  # as `tenure run` and `tenure.trace` do
    recorder.start()
    try:
        yield
    finally:
        recorder.stop()
        shutil.rmtree(folder)


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True):
        yield


@contextlib.contextmanager
def traced_by_python() -> Iterator[None]:
    tracemalloc.start(10)
    try:
        yield
    finally:
        tracemalloc.stop()


@contextlib.contextmanager
def history() -> Iterator[None]:
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=1_000_000)
    try:
        yield
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


@contextlib.contextmanager
def scoped() -> Iterator[None]:
    yield  # the scope is opened around each step


TOOLS = {
    "tenure": recorded,
    "a tenure scope around each step": scoped,
    "torch.profiler (memory, shapes, stacks)": profiled,
    "a recording TorchDispatchMode": Dispatch,
    "tracemalloc (10 frames)": traced_by_python,
}
OURS = (recorded, scoped)
if torch.cuda.is_available():
    TOOLS["_record_memory_history (Python stacks)"] = history
    del TOOLS["tracemalloc (10 frames)"]


def jobs(device: str):
    if device == "cuda":
        return {
            "GPT-2 small, bf16, 8 x 1024": gpt2,
            "launch-bound transformer, d=32": functools.partial(transformer, 32),
        }
    return {f"transformer, d={width}": functools.partial(transformer, width) for width in (32, 128)}


def worker(name: str, kind: str, device: str) -> None:
    model, batch = jobs(device)[name](device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(inside: bool) -> None:
        with tenure.scope("step") if inside and TOOLS[kind] is scoped else contextlib.nullcontext():
            train(model, optimizer, batch)

    work(step, TOOLS[kind], torch.cuda.synchronize if device == "cuda" else lambda: None)


def measured(name: str, kind: str, device: str) -> str:
    command = [sys.executable, "-W", "ignore", __file__, "--work", name, kind]
    # The profiler keeps all it has heard, and twice that when it is done: a second of small steps is gigabytes.
    seconds = SECONDS / 5 if TOOLS[kind] is profiled else SECONDS
    rounds = ROUNDS if TOOLS[kind] in OURS else max(ROUNDS // 3, 2)  # theirs are far from 1, and need no such care
    plain, _, ratio = measure(command, rounds, seconds, at_once=device != "cuda")
    return f"| {name} | {plain * 1e3:.1f} ms | {kind} | {ratio} |"


def memray(width: int, steps: int) -> float | None:
    """memray watches whole processes: the ratio of two of them, for the loop alone, the best of three each."""
    if shutil.which("memray") is None and not (Path(sys.executable).parent / "memray").exists():
        return None
    code = (
        f"import sys, time, torch; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from models import transformer, train\n"
        f"torch.set_num_threads(1); model, batch = transformer({width}, 'cpu')\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "for _ in range(5): train(model, optimizer, batch)\n"
        f"start = time.perf_counter()\nfor _ in range({steps}): train(model, optimizer, batch)\n"
        "print('seconds', time.perf_counter() - start)\n"
    )
    script = SCRATCH / "loop.py"
    script.write_text(code)
    python = [sys.executable, str(script)]
    best: dict[str, float] = {}
    for _ in range(3):
        for kind, command in (
            ("plain", python),
            ("memray", [sys.executable, "-m", "memray", "run", "-q", "-f", "-o", str(SCRATCH / "m.bin"), str(script)]),
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            took = next(float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("seconds"))
            best[kind] = min(best.get(kind, took), took)
    return best["memray"] / best["plain"]


def main() -> None:
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if sys.argv[1:2] == ["--work"]:
        worker(*sys.argv[2:], device)
        return
    if len(sys.argv) > 3:
        print(measured(*sys.argv[3:], device))
        return
    lines = []
    for name in jobs(device):
        for kind in TOOLS:
            lines.append(measured(name, kind, device))
            print(lines[-1], flush=True)
        whole = memray(int(name.rpartition("=")[2]), 20) if device == "cpu" else None
        if whole is not None:
            lines.append(f"| {name} | | memray run (processes, best of 3) | {whole:.3f} |")
            print(lines[-1], flush=True)
    where = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, one thread"
    text = [
        "# What recording costs",
        "",
        f"A training step (forward, backward, AdamW) in two {'alternating processes' if device == 'cuda' else 'processes at once'}, each",
        f"with half of the cores: one untraced, one with the tool, for {SECONDS:g} s (the profiler a fifth of that) after half as",
        f"long to warm up, and then the other way round. The ratio is the median of {ROUNDS} rounds (a third as many for other tools),",
        "with its 95% interval.",
        "tenure records allocations, uses and frees with Python stacks, and writes its files at the same time. Made by `make bench`.",
        "",
        f"{datetime.now(tz=UTC):%Y-%m-%d}, torch {torch.__version__}, Python {platform.python_version()}, {where}.",
        "",
        "| model | step | tool | ratio |",
        "|---|---|---|---|",
        *lines,
        "",
    ]
    out = Path(os.environ.get("OUT", Path(__file__).parent))
    (out / f"trace_cost{'_cuda' if device == 'cuda' else ''}.md").write_text("\n".join(text))
    shutil.rmtree(SCRATCH)


if __name__ == "__main__":
    main()
