"""How fast `tenure check` is on a tree, beside parsing alone and beside torchfix: processor seconds, one core.

python benchmarks/check_speed.py TREE [--torchfix PATH] [--every 16]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARSE = "import ast, sys, pathlib\nfor f in sys.stdin.read().split('\\n'):\n    ast.parse(pathlib.Path(f).read_bytes()) if f else None\n"


def seconds(command: list[str], *, text: str = "", env: dict[str, str] | None = None) -> tuple[float, int]:
    """Processor seconds and peak KiB of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    watch = "import resource, subprocess, sys; subprocess.run(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", watch, *command],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = int(done.stderr.strip().splitlines()[-1])
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak


def lines(files: list[Path]) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=Path)
    parser.add_argument("--torchfix", help="folder that torchfix is installed in")
    parser.add_argument("--every", type=int, default=16)
    options = parser.parse_args()
    files = sorted(options.tree.rglob("*.py"))
    total = lines(files)
    names = "\n".join(str(file) for file in files)
    print(f"{options.tree}: {len(files)} files, {total} lines\n")
    print("| step | CPU s | lines/s | x ast | peak MiB |\n|---|---|---|---|---|")

    def row(name: str, spent: float, peak: int, count: int = total, base: float = 0.0) -> None:
        ratio = f"{spent / base:.2f}" if base else "1"
        print(f"| {name} | {spent:.2f} | {count / spent:,.0f} | {ratio} | {peak // 1024} |", flush=True)

    check = [sys.executable, "-m", "tenure", "check", "-j1", "--isolated", "--format", "concise"]
    with tempfile.TemporaryDirectory() as cache:
        env = {"TENURE_CACHE_DIR": cache}
        bare = min((seconds([sys.executable, "-c", PARSE], text=names) for _ in range(3)), key=lambda r: r[0])
        row("ast.parse alone", *bare)
        cold = min((seconds([*check, "--no-cache", str(options.tree)]) for _ in range(3)), key=lambda r: r[0])
        row("tenure check, first run", *cold, base=bare[0])
        seconds([*check, str(options.tree)], env=env)
        warm = min((seconds([*check, str(options.tree)], env=env) for _ in range(3)), key=lambda r: r[0])
        row("tenure check, from cache", *warm, base=bare[0])
        print(f"\nfirst run / from cache: {cold[0] / warm[0]:.1f}")
    print("\n| every nth file | lines | CPU s | µs a line |\n|---|---|---|---|")
    start = time.process_time()
    for step in (8, 4, 2, 1):
        part = files[::step]
        spent, _ = seconds([*check, "--no-cache", *map(str, part)])
        print(f"| {step} | {lines(part)} | {spent:.2f} | {spent / lines(part) * 1e6:.1f} |", flush=True)
    if options.torchfix:
        part = [file for file in files if b"torch" in file.read_bytes()][:: options.every]
        env = {"PYTHONPATH": options.torchfix}
        theirs, _ = seconds([sys.executable, "-m", "torchfix", "-j1", *map(str, part)], env=env)
        ours, _ = seconds([*check, "--no-cache", *map(str, part)])
        print(
            f"\nslice of {len(part)} files with torch, {lines(part)} lines: torchfix {theirs:.1f} s, {lines(part) / theirs:,.0f} lines/s;"
        )
        print(f"tenure {ours:.2f} s, {lines(part) / ours:,.0f} lines/s: {theirs / ours:.0f} x")
    del start


if __name__ == "__main__":
    main()
