"""PyTorch's CUDA snapshots, as `torch.cuda.memory._dump_snapshot` writes them: a pickle of plain data.

There are the blocks that were alive when it was made and, where `_record_memory_history` was on, the last allocations
and frees with their Python frames. What was used when is not in it, nor what a block was for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenure.errors import TraceError
from tenure.trace.foreign import frames, plain_pickle
from tenure.trace.foreign.making import Making, describe

NAME = "a CUDA snapshot of PyTorch"
_FREED = ("free_requested", "free")  # from then on memory_allocated() does not count it
_UNKNOWN = "unknown"


def is_mine(data: bytes) -> bool:
    """Whether these bytes may be such a file: they begin as pickles do."""
    return data[:1] == b"\x80" and b"\x02" <= data[1:2] <= b"\x05"


def make(data: bytes, path: Path, folder: Path, moment: int) -> None:
    """Write it as a trace into a folder. `moment` is when the file was written: older ones hold no times."""
    told = plain_pickle.loads(data, str(path))
    if isinstance(told, list):  # what torch.cuda.memory_snapshot() gives
        told = {"segments": told}
    if not isinstance(told, dict) or not isinstance(told.get("segments"), list):
        raise TraceError(f"{path} is a pickle, but no CUDA snapshot: it has no 'segments'; name the folder of a trace")
    try:
        _Snapshot(told, moment, len(data)).write(folder)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"[:120]
        raise TraceError(f"{path} is not a CUDA snapshot that tenure can read ({why}); dump it again") from error


@dataclass(slots=True)
class _Device:
    """One device: what the history says of it, and what was alive in the end, by address."""

    name: str
    entries: list[dict[str, Any]]
    active: dict[int, dict[str, Any]]
    before: list[tuple[int, int, str | None]] = field(default_factory=list)  # alive when the history begins
    lost: int = 0  # alive by the history, but not in the end


class _Snapshot:
    def __init__(self, told: dict[str, Any], moment: int, nbytes: int) -> None:
        self._stacks: dict[int, tuple[Any, str | None]] = {}
        self._texts = frames.Stacks(nbytes)
        self._told = told
        traces = told.get("device_traces") or []
        # A pickle can name the same list again and again, each time with two bytes.
        lists = [*(segment["blocks"] for segment in told["segments"]), *traces]
        if sum(map(len, lists)) > nbytes:
            raise ValueError("it claims more blocks and events than a file of its size can contain")
        active = _active(told["segments"])
        numbers = sorted({*active, *(at for at, entries in enumerate(traces) if entries)})
        self._devices = [
            _Device(f"cuda:{at}", traces[at] if at < len(traces) else [], active.get(at, {})) for at in numbers
        ]
        self._timed = all("time_us" in entry for device in self._devices for entry in device.entries)
        self._moment = moment
        self._tells_ends = False  # whether frames of frees were recorded: if not, torch gives those of the allocation
        for device in self._devices:
            self._before(device)

    def _before(self, device: _Device) -> None:
        """Find what was alive when the history begins: freed or alive later, and allocated by none of its entries."""
        open_: dict[int, Any] = {}
        for entry in device.entries:
            address = entry["addr"]
            if entry["action"] == "alloc":
                open_[address] = entry.get("frames")
            elif entry["action"] in _FREED:
                if address in open_:
                    self._tells_ends |= open_.pop(address) != entry.get("frames")
                else:
                    device.before.append((address, _size(entry["size"]), None))
        device.lost = len(open_.keys() - device.active.keys())
        device.before += [
            (address, _asked(block), self._stack(_block_frames(block)))
            for address, block in device.active.items()
            if address not in open_
        ]

    def write(self, folder: Path) -> None:
        events = sorted(self._events(), key=lambda event: event[0])
        if not events and not any(device.before for device in self._devices):
            raise ValueError("it contains no memory")
        steps = self._steps(events[0][0] if events else self._moment)
        with Making(folder, "torch", {"uses": "unknown"}) as made:
            self._rows(made, events, steps)
        describe(folder, NAME, self._notes(bool(steps), bool(events)))

    def _rows(self, made: Making, events: list[tuple[int, int, dict[str, Any]]], steps: list[int]) -> None:
        begin = min([time for time, *_ in events] + steps, default=self._moment)
        alive: list[dict[int, int]] = [{} for _ in self._devices]  # buffers by address
        for device, known in zip(self._devices, alive, strict=True):
            for address, size, stack in device.before:
                known[address] = made.birth(begin, device.name, size, stack=stack, kind=_UNKNOWN)
        step = 0
        for time, at, entry in events:
            while step < len(steps) and steps[step] <= time:
                made.step(steps[step], step)
                step += 1
            self._event(made, time, self._devices[at], alive[at], entry, step if steps else None)
        for number, time in enumerate(steps[step:], step):
            made.step(time, number)
        self._rest(made, events[-1][0] + 1 if events else begin, alive)

    def _event(
        self, made: Making, time: int, device: _Device, alive: dict[int, int], entry: dict[str, Any], step: int | None
    ) -> None:
        action, address = entry["action"], entry["addr"]
        if action == "alloc":
            stack = self._stack(entry.get("frames"))
            alive[address] = made.birth(time, device.name, _size(entry["size"]), stack=stack, kind=_UNKNOWN, step=step)
        elif action in _FREED and address in alive:
            stack = self._stack(entry.get("frames")) if self._tells_ends else None
            made.end(time, alive.pop(address), stack=stack, step=step)
        elif action == "oom":
            free = entry.get("device_free", 0)
            made.mark(time, f"out of memory on {device.name}: {entry['size']:,} bytes wanted, {free:,} free", step)

    def _rest(self, made: Making, time: int, alive: list[dict[int, int]]) -> None:
        """What the history left alive, and the snapshot did not find: it was freed after the history ends."""
        for device, known in zip(self._devices, alive, strict=True):
            for address, buffer in known.items():
                if address not in device.active:
                    made.end(time, buffer)

    def _events(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """The entries of all devices: time, device and entry. What falls into one microsecond keeps its order."""
        for at, device in enumerate(self._devices):
            last = 0
            first = self._moment - len(device.entries)
            for number, entry in enumerate(device.entries):
                last = max(last + 1, int(entry["time_us"]) if self._timed else first + number)
                yield last, at, entry

    def _steps(self, begin: int) -> list[int]:
        """When each step was done: torch notes the calls of optimizers beside the history."""
        told = [one for one in self._told.get("external_annotations") or [] if one.get("stage") == "END"]
        told = [one for one in told if str(one.get("name")).startswith("Optimizer.step#")]
        times = sorted(int(one["time_us"]) for one in told if one.get("device") == told[0].get("device"))
        return [time for time in times if time >= begin] if self._timed else []

    def _stack(self, given: Any) -> str | None:
        """Frames as text. A pickle has the same list again and again, so each is told once."""
        if not given:
            return None
        known = self._stacks.get(id(given))
        if known is None:
            text = self._texts.told((str(one["filename"]), int(one["line"]), str(one["name"])) for one in given)
            known = self._stacks[id(given)] = given, text
        return known[1]

    def _notes(self, steps: bool, events: bool) -> list[str]:
        blocks = [block for device in self._devices for block in device.active.values()]
        asked, taken = sum(map(_asked, blocks)), sum(block["size"] for block in blocks)
        reserved = sum(segment["total_size"] for segment in self._told["segments"])
        notes = [f"made from {NAME}: it contains neither last uses nor kinds, so drag and leaks are unknown"]
        notes.append(
            f"sizes are as requested: {asked:,} bytes at the end. torch's blocks take {taken:,} (memory_allocated), its "
            f"segments {reserved:,} (memory_reserved)"
        )
        before = [size for device in self._devices for _, size, _ in device.before]
        if not events:
            notes.append("it has no allocation history: it shows one point in time, at which all allocations appear")
        elif before:
            notes.append(
                f"{_blocks(len(before))} allocated before its history begins, {sum(before):,} bytes: shown as allocated at "
                "its beginning"
            )
        if events and not self._timed:
            notes.append("its history has no times: events are shown a microsecond apart")
        lost = sum(device.lost for device in self._devices)
        if lost:
            notes.append(f"{_blocks(lost)} freed after its history; the trace shows them as freed when it ends")
        if steps:
            notes.append("a step is a call of an optimizer's step()")
        return notes


def _active(segments: Iterable[Any]) -> dict[int, dict[int, dict[str, Any]]]:
    """The blocks alive, by device and address."""
    found: dict[int, dict[int, dict[str, Any]]] = {}
    for segment in segments:
        address = segment["address"]
        known = found.setdefault(int(segment.get("device", 0)), {})
        for block in segment["blocks"]:
            address = block.get("address", address)
            if block["state"] == "active_allocated":
                known[address] = block
            address += block["size"]
    return found


def _blocks(count: int) -> str:
    return f"{count:,} block was" if count == 1 else f"{count:,} blocks were"


def _asked(block: dict[str, Any]) -> int:
    """The bytes that were asked for; in old snapshots they stand elsewhere."""
    history = block.get("history") or [{}]
    return _size(block.get("requested_size", history[0].get("real_size", block["size"])))


def _block_frames(block: dict[str, Any]) -> Any:
    return block.get("frames") or (block.get("history") or [{}])[0].get("frames")


def _size(told: Any) -> int:
    size = int(told)
    if size < 0:
        raise ValueError(f"a block of {size:,} bytes")
    return size
