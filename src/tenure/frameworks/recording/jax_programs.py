"""What JAX's compiled programs need beside their arguments and results, by XLA's own figures.

XLA allocates these temporaries while a program runs, and JAX has no object for them. So a recorded peak is of arrays
alone. The programs that are loaded know how much they need; nothing is compiled and nothing is waited for.
"""

from __future__ import annotations

import time
from typing import Any

from jax._src import xla_bridge

from tenure.frameworks.base import Sink
from tenure.model import size

_SECONDS = 0.2  # to ask programs, each of which takes about 0.2 ms
_ALONE = "it counts only arrays, not the temporary memory of compiled programs"


def note_temporaries(sink: Sink | None) -> None:
    """Record that the peak has no temporaries in it, and the most that a loaded program needs for them."""
    clients = list(getattr(xla_bridge, "_backends", {}).values())
    if sink is None or not clients:  # no device is in use, and no program was compiled
        return
    try:
        more = _most(clients)
    except Exception as error:  # noqa: BLE001 - these are JAX's inner parts, which differ from version to version
        more = f"; XLA's figures are not known: {error!r}"
    sink.partly(("peak",), _ALONE + more)


def _most(clients: list[Any]) -> str:
    """How much that is, as text."""
    programs = [program for client in clients for program in client.live_executables()]
    most, largest, asked = 0, None, 0
    until = time.monotonic() + _SECONDS
    for program in programs:
        needed = program.get_compiled_memory_stats().temp_size_in_bytes
        asked += 1
        if needed > most:
            most, largest = needed, program
        if time.monotonic() > until:
            break
    some = f", of {asked:,} of {len(programs):,} programs" if asked < len(programs) else ""
    if largest is None:
        return f", of which XLA reports none{some}" if programs else ""
    return f", which by XLA's figures is up to {size(most)}, in {largest.hlo_modules()[0].name}{some}"
