"""Allocations by stack, and how much of them was alive at the peak, for pprof and Speedscope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tenure.views.export.base import Job, quoted

# A moment for each device: its own peak, as `Trace.peak` finds it.
_QUERY = """
    with moments (device, moment) as (values {})
    select device, process, kind, stack, count(*) as births, sum(bytes)::bigint as bytes,
        count(*) filter (epoch_us(born) <= moment and (ended is null or epoch_us(ended) > moment)) as alive,
        coalesce(sum(bytes) filter (epoch_us(born) <= moment and (ended is null or epoch_us(ended) > moment)), 0)::bigint
            as alive_bytes
    from buffers join moments using (device) where bytes > 0
    group by device, process, kind, stack order by device, stack, process, kind"""


@dataclass(frozen=True, slots=True)
class Made:
    """The allocations of one stack of a process on a device: in total, and alive at the device's peak."""

    device: str
    process: int
    kind: str
    stack: str | None
    births: int
    bytes: int
    alive: int
    alive_bytes: int


def peaks(job: Job) -> dict[str, tuple[int, int]]:
    """Return the bytes and the time of the peak of each used device, accelerators first."""
    scan = job.trace.scanned
    found = {
        name: (most, at) for name, (most, at, _) in zip(scan.words("device"), scan.peaks(), strict=False) if most > 0
    }
    return dict(sorted(found.items(), key=lambda one: (one[0] == "cpu", one[0])))


def made(job: Job) -> Iterator[Made]:
    """Return all allocations, device by device."""
    moments = ", ".join(f"({quoted(name)}, {at})" for name, (_, at) in peaks(job).items())
    if moments:
        for row in job.rows(_QUERY.format(moments)):
            yield Made(**row)
