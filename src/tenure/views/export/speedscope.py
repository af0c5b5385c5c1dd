"""The file that https://www.speedscope.app reads: a flame graph of the bytes alive at each device's peak, by stack."""

from __future__ import annotations

import itertools
import json
from typing import Any

import tenure
from tenure.model import size
from tenure.views.export.base import Frame, Job, frames
from tenure.views.export.by_stack import made, peaks

NAME = "speedscope"
SUFFIX = ".speedscope.json"
ABOUT = "the same as flame graphs, for speedscope.app"
TABLES = False
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write(job: Job) -> None:
    """Write it."""
    known: dict[Frame, int] = {}
    tops = peaks(job)
    alive: list[dict[str, Any]] = []
    born: list[dict[str, Any]] = []
    for device, rows in itertools.groupby(made(job), key=lambda one: one.device):
        samples: dict[tuple[int, ...], list[int]] = {}
        for one in rows:
            # Outermost first.
            stack = tuple(known.setdefault(frame, len(known)) for frame in reversed(frames(one.stack)))
            sums = samples.setdefault(stack, [0, 0])
            sums[0] += one.alive_bytes
            sums[1] += one.bytes
        alive.append(_profile(f"{device} at its peak of {size(tops[device][0])}", samples, 0))
        born.append(_profile(f"{device}, all allocations", samples, 1))
    told = {
        "$schema": _SCHEMA,
        "name": job.trace.path.name,
        "exporter": f"tenure {tenure.__version__}",
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(frame) for frame in known]},
        "profiles": sorted(alive, key=lambda one: -one["endValue"]) + born,
    }
    job.path.write_text(json.dumps(told), encoding="utf-8")


def _profile(name: str, samples: dict[tuple[int, ...], list[int]], which: int) -> dict[str, Any]:
    told = {stack: sums[which] for stack, sums in sorted(samples.items()) if sums[which]}
    return {
        "type": "sampled",
        "name": name,
        "unit": "bytes",
        "startValue": 0,
        "endValue": sum(told.values()),
        "samples": [list(stack) for stack in told],
        "weights": list(told.values()),
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {"name": frame.function} | ({"file": frame.file, "line": frame.line} if frame.file else {})
