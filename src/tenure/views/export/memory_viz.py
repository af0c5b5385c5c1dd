"""The snapshot that PyTorch's memory viewer reads: https://pytorch.org/memory_viz and `torch.cuda._memory_viz`.

Each device of each process is one device there, the host's memory too. tenure does not know addresses, so they are made
up: a block goes to the smallest hole that it fits into.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

from tenure.views.export.base import Job, frames, process_name, quoted
from tenure.views.export.pickles import BEGIN, EMPTY_DICT, END, MARK, SETITEMS, Shared, Writer

NAME = "memory_viz"
SUFFIX = ".memory_viz.pickle"
ABOUT = "a snapshot as of torch.cuda.memory, for pytorch.org/memory_viz"
TABLES = False
_DEVICES = "select distinct process, device from events where event = 'birth' and bytes > 0 order by process, device"
# At one moment, what was there ends before what is new comes, and ends itself.
_CHANGES = """
    with lives as materialized (
        select buffer, bytes, kind, stack, end_stack, epoch_us(born) as born, epoch_us(ended) as ended
        from buffers where process = {} and device = {} and bytes > 0
    )
    select born as time, 1 as rank, buffer, bytes, kind, stack from lives
    union all select ended, case when ended > born then 0 else 2 end, buffer, bytes, kind, end_stack
    from lives where ended is not null order by time, rank, buffer"""
_APART = 1 << 40  # between devices; the viewer counts in doubles, so all stay below 1 << 53


def write(job: Job) -> None:
    """Write it."""
    pairs = [(row["process"], row["device"]) for row in job.rows(_DEVICES)]
    places = _places(pairs, several=len({process for process, _ in pairs}) > 1)
    names = {process.number: process_name(process, job.trace) for process in job.trace.processes}
    devices = [_Device(job, at, pair) for at, pair in enumerate(places)]
    with job.path.open("wb") as file:
        out = Writer(file)
        out.raw(BEGIN + EMPTY_DICT + MARK)
        out.value("device_traces")
        out.values(device.entries() for device in devices)
        out.value("segments")
        out.values(segment for device in devices for segment in device.segments())
        out.value("tenure")  # what each number stands for; others pass over it
        told = ["" if pair is None else f"{names[pair[0]]}, {pair[1]}" for pair in places]
        out.value({"trace": job.trace.path.name, "devices": told})
        out.raw(SETITEMS + END)
        out.flush()


def _places(pairs: list[tuple[int, str]], *, several: bool) -> list[tuple[int, str] | None]:
    """Return the number of each device: in one process, cuda:1 is 1; others follow."""
    if several:
        return [*pairs]
    numbered = {int(name[5:]): (process, name) for process, name in pairs if name[:5] == "cuda:" and name[5:].isdecimal() and len(name) < 8}  # fmt: skip
    rest = [pair for pair in pairs if pair not in numbered.values()]
    return [*(numbered.get(at) for at in range(max(numbered, default=-1) + 1)), *rest]


class _Device:
    """The entries of one device, and what is left alive in its one segment when they have been told."""

    def __init__(self, job: Job, at: int, pair: tuple[int, str] | None) -> None:
        self._job = job
        self._at = at
        self._pair = pair
        self._arena = _Arena((at + 1) * _APART)
        self._alive: dict[int, tuple[int, int, str | None]] = {}  # by buffer: address, bytes, stack

    def entries(self) -> Iterator[dict[str, Any]]:
        """Allocations and frees, in the order of time."""
        if self._pair is None:
            return
        time = 0
        process, device = self._pair
        for row in self._job.rows(_CHANGES.format(process, quoted(device))):
            time, size = row["time"], row["bytes"]
            told = {
                "stream": 0,
                "time_us": time,
                "size": size,
                "frames": _frames(row["stack"]),
                "category": row["kind"],
            }
            if row["rank"] == 1:
                address = self._arena.take(size)
                self._alive[row["buffer"]] = address, size, row["stack"]
                yield {"action": "alloc", "addr": address, **told}
            else:
                address, _, _ = self._alive.pop(row["buffer"])
                self._arena.give(address, size)
                yield {"action": "free_requested", "addr": address, **told}
                yield {"action": "free_completed", "addr": address, **told}
        # The viewer needs a category of this name where there are any.
        yield {
            "action": "snapshot", "addr": 0, "stream": 0, "time_us": time, "size": 0, "frames": [], "category": "unknown"
        }  # fmt: skip

    def segments(self) -> Iterator[dict[str, Any]]:
        """Yield the only segment: its blocks and the gaps between them."""
        first, last = self._arena.base, self._arena.top
        if first == last:
            return
        blocks: list[dict[str, Any]] = []
        at = first
        for address, size, stack in sorted(self._alive.values(), key=lambda one: one[0]):
            blocks += [_hole(at, address - at)] if address > at else []
            blocks.append(
                {"address": address, "size": size, "requested_size": size, "state": "active_allocated", "frames": _frames(stack)}
            )  # fmt: skip
            at = address + size
        blocks += [_hole(at, last - at)] if last > at else []
        alive = sum(size for _, size, _ in self._alive.values())
        yield {
            "device": self._at, "address": first, "total_size": last - first, "allocated_size": alive,
            "active_size": alive, "requested_size": alive, "stream": 0, "segment_type": "large",
            "is_expandable": False, "frames": [], "blocks": blocks,
        }  # fmt: skip


def _hole(address: int, size: int) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": 0, "state": "inactive", "frames": []}


def _frames(stack: str | None) -> Shared:
    return Shared(stack, _taken_apart)


def _taken_apart(stack: str | None) -> list[dict[str, Any]]:
    if stack is None:
        return []
    return [{"name": one.function, "filename": one.file, "line": one.line} for one in frames(stack)]


class _Arena:
    """Addresses: the smallest hole that is large enough, or the end."""

    def __init__(self, base: int) -> None:
        self.base = self.top = base
        self._holes: list[tuple[int, int]] = []  # size and address, sorted
        self._starts: dict[int, int] = {}  # address and size
        self._ends: dict[int, int] = {}  # end and address

    def take(self, size: int) -> int:
        """Return an address for so many bytes."""
        at = bisect_left(self._holes, (size, 0))
        if at == len(self._holes):
            self.top += size
            return self.top - size
        hole, address = self._holes[at]
        self._remove(address)
        if hole > size:
            self._add(address + size, hole - size)
        return address

    def give(self, address: int, size: int) -> None:
        """Give it back: holes beside each other are one."""
        before = self._ends.get(address)
        if before is not None:
            size += address - before
            address = before
            self._remove(before)
        after = self._starts.get(address + size)
        if after is not None:
            self._remove(address + size)
            size += after
        self._add(address, size)

    def _add(self, address: int, size: int) -> None:
        insort(self._holes, (size, address))
        self._starts[address] = size
        self._ends[address + size] = address

    def _remove(self, address: int) -> None:
        size = self._starts.pop(address)
        del self._ends[address + size]
        del self._holes[bisect_left(self._holes, (size, address))]
