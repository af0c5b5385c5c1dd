"""JAX's memory profiles, as `jax.profiler.save_device_memory_profile` writes them: profiles of pprof.

There are the arrays that were alive at one moment, by the stack that made them, and the programs that were compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tenure.errors import TraceError
from tenure.trace.foreign import frames
from tenure.trace.foreign.making import Making, describe
from tenure.trace.foreign.protobuf import fields, numbers, signed

NAME = "a memory profile of JAX"
_EACH = 1_000_000  # buffers that are told one by one
_LARGEST = 1 << 25  # bytes; one of a large program has some hundred thousand
_FIELDS = 1_000_000  # samples, places, functions and strings together
# Of profile.proto: https://github.com/google/pprof/blob/main/proto/profile.proto
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRINGS, _TIME = 1, 2, 4, 5, 6, 9


def is_mine(data: bytes) -> bool:
    """Whether these bytes may be such a file: a message that begins with the types of its samples."""
    return len(data) > 2 and data[0] == 0x0A and data[1] <= 32 and data[2] in (0x08, 0x10)


@dataclass(slots=True)
class _Sample:
    locations: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)


def make(data: bytes, path: Path, folder: Path, moment: int) -> None:
    """Write it as a trace into a folder; `moment` is when the file was written."""
    try:
        _Profile(memoryview(data), moment).write(folder)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError, UnicodeDecodeError) as error:
        why = str(error)[:120]
        raise TraceError(
            f"{path} is not a memory profile of JAX that tenure can read ({why}); save it again"
        ) from error


class _Profile:
    def __init__(self, data: memoryview, moment: int) -> None:
        found: dict[int, list[int | memoryview]] = {}
        if len(data) > _LARGEST:
            raise ValueError(f"it has {len(data):,} bytes")
        for count, (number, value) in enumerate(fields(data)):
            if count >= _FIELDS:
                raise ValueError(f"it has more than {_FIELDS:,} parts")
            found.setdefault(number, []).append(value)
        self._texts = frames.Stacks(len(data))
        self._strings = [bytes(_message(value)).decode(errors="backslashreplace") for value in found.get(_STRINGS, [])]
        kinds = [self._strings[one.get(1, [0])[0]] for one in map(_numbers, found.get(_SAMPLE_TYPE, []))]
        if "space" not in kinds or "allocations" not in kinds:
            raise ValueError(f"it counts {', '.join(kinds) or 'nothing'}, not allocations and space")
        self._count, self._space = kinds.index("allocations"), kinds.index("space")
        self._functions = {one[1][0]: one for one in map(_numbers, found.get(_FUNCTION, []))}
        self._locations = dict(self._location(value) for value in found.get(_LOCATION, []))
        self._samples = [self._sample(value) for value in found.get(_SAMPLE, [])]
        times = [signed(next(numbers(value))) for value in found.get(_TIME, [])]
        self._moment = times[0] // 1000 if times and times[0] > 0 else moment

    def _location(self, value: int | memoryview) -> tuple[int, list[frames.Frame]]:
        """Its number and its frames, the innermost first."""
        number, lines = 0, []
        for at, one in fields(_message(value)):
            if at == 1 and isinstance(one, int):
                number = one
            elif at == 4:
                line = _numbers(one)
                function = self._functions[line[1][0]]
                names = [self._strings[function.get(part, [0])[0]] for part in (4, 2)]
                lines.append((names[0], line.get(2, [0])[0], names[1]))
        return number, lines

    def _sample(self, value: int | memoryview) -> _Sample:
        sample = _Sample()
        for at, one in fields(_message(value)):
            if at == 1:
                sample.locations += numbers(one)
            elif at == 2:
                sample.values += map(signed, numbers(one))
            elif at == 3:
                label = _numbers(one)
                sample.labels[self._strings[label[1][0]]] = self._strings[label.get(2, [0])[0]]
        return sample

    def write(self, folder: Path) -> None:
        buffers = [one for one in self._samples if one.labels.get("kind", "buffer") == "buffer"]
        each = sum(max(one.values[self._count], 0) for one in buffers) <= _EACH
        with Making(folder, "jax", {"uses": "unknown"}) as made:
            for sample in buffers:
                stack = self._texts.told(frame for number in sample.locations for frame in self._locations[number])
                for size in self._sizes(sample, each=each):
                    made.birth(self._moment, sample.labels.get("device", "unknown"), size, stack=stack, kind="unknown")
            made.mark(self._moment, "device memory profile")
        notes = [
            f"made from {NAME}: it shows one point in time, at which all allocations appear; uses, releases, drag and leaks are unknown"
        ]
        if not each:
            notes.append("buffers of the same stack and size are shown as one: there are too many to show each")
        others = len(self._samples) - len(buffers)
        if others:
            notes.append(f"{others:,} of its samples are compiled programs, not arrays, and are left out")
        describe(folder, NAME, notes)

    def _sizes(self, sample: _Sample, *, each: bool) -> Iterator[int]:
        """JAX counts arrays of the same stack, device and size together."""
        count, space = sample.values[self._count], sample.values[self._space]
        if each and count > 0 and space % count == 0:
            yield from (space // count for _ in range(count))
        else:
            yield space


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise TypeError("a number where a message should be")
    return value


def _numbers(value: int | memoryview) -> dict[int, list[int]]:
    """The fields of a message that hold numbers alone."""
    found: dict[int, list[int]] = {}
    for number, one in fields(_message(value)):
        if isinstance(one, int):
            found.setdefault(number, []).append(one)
    return found
