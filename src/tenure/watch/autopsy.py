"""What is alive at the moment when memory runs out: by line and holder, the largest first."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

from tenure import stacks
from tenure.frameworks.base import Crowd, Growing
from tenure.trace import autopsies
from tenure.trace.autopsies import Autopsy, Part
from tenure.trace.recorder import Recorder
from tenure.watch import holding

_PARTS = 10
_SEARCHED = 4  # of those, whose holders are searched for
_SECONDS = 5.0


def take(recorder: Recorder, growing: Sequence[Growing], why: str, wanted: int | None) -> None:
    """Look, and keep what was seen with the trace."""
    crowds = [(crowd, each) for each in growing for crowd in each.crowds(1) if crowd.what == "buffers"]
    crowds.sort(key=lambda pair: -pair[0].nbytes)
    alive = sum(crowd.nbytes for crowd, _ in crowds)
    crowds = [pair for pair in crowds if pair[0].nbytes * 100 >= alive]
    collecting = gc.isenabled()
    gc.disable()
    try:
        parts = _parts(crowds)
    finally:
        if collecting:
            gc.enable()
    crowds.clear()
    autopsies.tell(recorder.folder, Autopsy(why, wanted, stacks.text(stacks.capturer()()), recorder.step, alive, parts))


def _parts(crowds: Sequence[tuple[Crowd, Growing]]) -> list[Part]:
    found = []
    began = time.thread_time()
    for at, (crowd, growing) in enumerate(crowds[:_PARTS]):
        search = at < _SEARCHED and time.thread_time() - began < _SECONDS
        facts, held = holding.search(crowd, growing) if search else ({}, [])
        idle = (time.monotonic_ns() - crowd.last_use) / 1e9 if crowd.last_use else None
        found.append(Part(crowd.framework, crowd.stack, crowd.count, crowd.nbytes, idle, facts, held))
    return found
