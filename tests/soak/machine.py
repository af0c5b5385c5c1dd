"""Runs random programs in a child process. A program is data: a list of steps [kind, i, j, k], each of which any world
can carry out (or pass over) whatever came before, so that hypothesis can cut and simplify it freely."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

HERE = Path(__file__).parent
ENV = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


class Child:
    """One long-lived process that runs programs of one world; started anew after it died."""

    def __init__(self, world: str) -> None:
        self.world = world
        self.process: subprocess.Popen[str] | None = None
        self.errors: Any = None

    def run(self, program: list[Any]) -> dict[str, Any]:
        process = self.process or self.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(program) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        code = process.wait()
        self.process = None
        self.errors.seek(0)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return {"failure": f"the child died: {how}\n{self.errors.read()[-3000:]}", "steps": 0}

    def start(self) -> subprocess.Popen[str]:
        if self.errors is not None:
            self.errors.close()
        self.errors = tempfile.TemporaryFile("w+")
        command = [sys.executable, str(HERE / "child.py"), self.world]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **ENV},
        )
        return self.process

    def close(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None
        if self.errors is not None:
            self.errors.close()


def programs(kinds: list[str], steps: int) -> st.SearchStrategy[list[Any]]:
    """Lists of steps; "rest" does nothing, and is what a step becomes that a failure does not need."""
    step = st.tuples(st.sampled_from(["rest", *kinds]), st.integers(0, 63), st.integers(0, 63), st.integers(0, 63))
    return st.lists(step, min_size=min(12, steps), max_size=steps)


def soak(world: str, kinds: list[str], *, examples: int, steps: int = 40, long: bool = False) -> None:
    """Run so many programs, each with tenure and without, and tell how many ran."""
    child = Child(world)
    counts: Counter[str] = Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=not long,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        print_blob=False,
    )
    @given(programs(kinds, steps))
    def check(program: list[Any]) -> None:
        program = [step for step in program if step[0] != "rest"]
        verdict = child.run(program)
        counts["sequences"] += 1
        counts["steps"] += verdict["steps"]
        counts.update(verdict.get("kinds", {}))
        assert not verdict["failure"], f"{verdict['failure']}\nthe program: {json.dumps(program)}"

    try:
        check()
    finally:
        child.close()
        sequences, done = counts.pop("sequences", 0), counts.pop("steps", 0)
        print(f"\n{world}: {sequences} sequences, {done} steps carried out: {dict(sorted(counts.items()))}")
