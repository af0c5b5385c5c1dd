"""What a store in files costs: putting against plain safetensors on the same disk, reading against a copy.

Writes benchmarks/store_file.md. `--quick` takes a sixteenth of the bytes, and writes nothing.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

import tenure

QUICK = "--quick" in sys.argv
PUT = (16 if QUICK else 256) << 20
READ = (64 if QUICK else 1024) << 20
ROUNDS = 3 if QUICK else 7

READER = """
import json, sys, time, torch, tenure
torch.set_num_threads(1)
store = tenure.Store(sys.argv[1])
store["small"].sum()
def resident():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) * 1024
def timed(work):
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - cpu
looks, copies = [], []
for _ in range(int(sys.argv[2])):
    before = resident()
    tensor, *look = timed(lambda: store["large"])
    grown = resident() - before
    copy, *cost = timed(tensor.clone)
    looks.append(look); copies.append(cost)
    touched = resident() - before
    del tensor, copy
print(json.dumps([looks, copies, grown, touched]))
"""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def plain(folder: Path, tensor: torch.Tensor, *, sync: bool) -> None:
    save_file({"w": tensor}, folder / "plain.safetensors")
    if sync:
        for path in (folder / "plain.safetensors", folder):
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)


def puts(folder: Path) -> list[str]:
    """Rows of the table of puts: each pair interleaved, the order turned every time, new files each time."""
    tensor = torch.randn(PUT // 4)
    rows = []
    for name, ending, sync in (("as it is", "", False), ("through to the disk", "?durable", True)):
        store = tenure.Store(f"file:{folder / 'store'}{ending}")
        times: dict[str, list[tuple[float, float]]] = {"plain": [], "ours": []}
        works = {
            "plain": lambda sync=sync: plain(folder, tensor, sync=sync),
            "ours": lambda store=store: store.put("w", tensor),
        }
        for turn in range(ROUNDS + 1):
            for kind in sorted(works, reverse=bool(turn % 2)):
                once = timed(works[kind])
                if turn:  # the first one warms up
                    times[kind].append(once)
                (folder / "plain.safetensors").unlink(missing_ok=True)
                store.pop("w", None)
        medians = {kind: [statistics.median(column) for column in zip(*times[kind], strict=True)] for kind in times}
        ratios = [
            statistics.median(a[part] / b[part] for a, b in zip(times["plain"], times["ours"], strict=True))
            for part in (0, 1)
        ]
        best = [min(a[part] for a in times["plain"]) / min(a[part] for a in times["ours"]) for part in (0, 1)]
        speeds = [f"{PUT / medians[kind][0] / 2**30:.2f} GiB/s" for kind in ("plain", "ours")]
        rows.append(
            f"{name} | {speeds[0]} | {speeds[1]} | {ratios[0]:.2f} | {best[0]:.2f} | {ratios[1]:.2f} | {best[1]:.2f} |"
        )
        store.close()
    return rows


def reads(folder: Path) -> tuple[str, float]:
    """The row of the table of reads, by a second process."""
    import json

    url = f"file:{folder / 'store'}"
    with tenure.Store(url) as store:
        store["small"] = torch.ones(3)
        store["large"] = torch.randn(READ // 4)
        done = subprocess.run(
            [sys.executable, "-c", READER, url, "5"], stdout=subprocess.PIPE, check=True, text=True
        ).stdout
        store.delete("large")
    looks, copies, grown, touched = json.loads(done)
    ratio = statistics.median(look[0] / copy[0] for look, copy in zip(looks, copies, strict=True))
    cpu = statistics.median(look[1] / copy[1] for look, copy in zip(looks, copies, strict=True))
    look, copy = (statistics.median(one[0] for one in times) * 1000 for times in (looks, copies))
    text = (
        f"{look:.2f} ms | {copy:.0f} ms | {ratio:.3%} | {cpu:.3%} | {grown // 1024} KiB | {touched / 2**30:.2f} GiB |"
    )
    return text, ratio


def main() -> None:
    torch.set_num_threads(1)
    places = {"disk": None, "RAM disk": "/dev/shm"}
    put_rows, read_rows = [], []
    for place, where in places.items():
        if where and not Path(where).is_dir():
            continue
        folder = Path(tempfile.mkdtemp(prefix="tenure-bench-", dir=where))
        try:
            put_rows += [f"| {place} | {row}" for row in puts(folder)]
            read_rows.append(f"| {place} | {reads(folder)[0]}")
        finally:
            shutil.rmtree(folder)
    load = os.getloadavg()[0]
    text = f"""# What a store in files costs

torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors, load
{load:.1f} while this ran; a higher load makes the figures noisier. Made by `python benchmarks/store_file.py`.

## Putting {PUT >> 20} MiB, against `safetensors.torch.save_file` into the same folder

Interleaved, in alternating order, {ROUNDS} rounds, each into new files. The ratio is the speed of `store.put` divided by that
of `save_file`: 1.00 is as fast, below 1 is slower. It is the median over pairs, and that of the two best rounds. "As it is":
neither waits for the disk. "Through to the disk": `file:PATH?durable` against `save_file` followed by `fsync` of the
file and the folder. A put does more than `save_file`: it computes a checksum of all bytes, adds a name to the index, and survives a kill.

| where | how | save_file | put | ratio | best | ratio of processor time | best |
|---|---|---|---|---|---|---|---|
{chr(10).join(put_rows)}

## Reading {READ >> 20} MiB in a second process, against a copy of it

`store[name]` maps the file; the copy is `tensor.clone()` of the result. Resident memory is from
`/proc/self/smaps_rollup`: grown by the read, and after the tensor was touched and copied.

| where | read | copy | ratio | of processor time | grown by the read | after touch and copy |
|---|---|---|---|---|---|---|
{chr(10).join(read_rows)}
"""
    print(text)
    if not QUICK:
        Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
