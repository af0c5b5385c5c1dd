"""The profile that Google's pprof, Pyroscope, Parca and Go's tools read: bytes and buffers by stack.

What was alive at the peak of each device is `inuse_space` and `inuse_objects`; all that was born in the run is
`alloc_space` and `alloc_objects`. Samples are labelled with device, kind and process.
"""

from __future__ import annotations

import gzip

from tenure.trace.foreign.protobuf import message, number, packed, text
from tenure.views.export.base import Frame, Job, frames, process_name
from tenure.views.export.by_stack import made

NAME = "pprof"
SUFFIX = ".pb.gz"
ABOUT = "bytes at the peak and all allocations, by stack, for pprof"
TABLES = False
# Of profile.proto: https://github.com/google/pprof/blob/main/proto/profile.proto
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _TIME, _DURATION, _COMMENT, _DEFAULT = 1, 2, 4, 5, 6, 9, 10, 13, 14  # fmt: skip
_VALUES = (
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
)


def write(job: Job) -> None:
    """Write it."""
    profile = _Profile()
    names = {process.number: process_name(process, job.trace) for process in job.trace.processes}
    with job.path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        for name, unit in _VALUES:
            file.write(message(_SAMPLE_TYPE, number(1, profile.word(name)), number(2, profile.word(unit))))
        for one in made(job):
            places = packed(1, (profile.location(frame) for frame in frames(one.stack)))
            values = packed(2, (one.births, one.bytes, one.alive, one.alive_bytes))
            labels = {"device": one.device, "kind": one.kind, "process": names[one.process]}
            told = b"".join(
                message(3, number(1, profile.word(key)), number(2, profile.word(value)))
                for key, value in labels.items()
            )
            file.write(message(_SAMPLE, places, values, told))
        first, last = job.trace.scanned.facts[:2]
        file.write(number(_TIME, first * 1000) + number(_DURATION, max(last - first, 0) * 1000))
        file.write(number(_COMMENT, profile.word(f"tenure: {job.trace.path.name}")))
        file.write(number(_DEFAULT, profile.word("inuse_space")))
        file.write(profile.tables())


class _Profile:
    """The words, functions and places of a profile, each once."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._places: dict[Frame, int] = {}

    def word(self, value: str) -> int:
        return self._words.setdefault(value, len(self._words))

    def location(self, frame: Frame) -> int:
        known = self._places.get(frame)
        if known is None:
            known = self._places[frame] = len(self._places) + 1
            self._functions.setdefault((frame.function, frame.file), len(self._functions) + 1)
        return known

    def tables(self) -> bytes:
        found = []
        for frame, at in self._places.items():
            line = number(1, self._functions[frame.function, frame.file]) + number(2, frame.line)
            found.append(message(_LOCATION, number(1, at), message(4, line)))
        for (function, file), at in self._functions.items():
            # Where both names are the same, pprof takes them for C++, and `<module>` for a template's argument.
            system = self.word(f"{file}:{function}")
            name = number(2, self.word(function)) + number(3, system) + number(4, self.word(file))
            found.append(message(_FUNCTION, number(1, at), name))
        return b"".join([*found, *(text(_STRING, word) for word in self._words)])
