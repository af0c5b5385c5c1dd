"""Perfetto's trace packets: tracks, slices, instants and counters, written as they come.

The fields are those of https://github.com/google/perfetto/blob/main/protos/perfetto/trace/perfetto_trace.proto. Words
that come again (a stack, a site) are written once and then go by number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

from tenure.trace.foreign.protobuf import message, number, text, varint

_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR, _CLOCKS = 8, 10, 11, 12, 13, 60, 6
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # kinds of track events
_BYTES = 3  # the unit of a counter
_EXPLICIT = 3  # the order of tracks below another
_REALTIME, _BOOTTIME = 1, 6
_FIRST, _LATER = number(_FLAGS, 1), number(_FLAGS, 2)  # words begin anew; words are needed
_ONE = number(_SEQUENCE, 1)
_VALUE = varint(30 << 3)


class Packets:
    """Writes packets into a file. Times are in µs since 1970, tracks go by number; below 0 there is nothing."""

    def __init__(self, file: BinaryIO, first: int) -> None:
        self._file = file
        self._tracks = 0
        self._groups: dict[tuple[str, int], int] = {}
        self._names: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        clocks = [message(1, number(1, clock), number(2, first * 1000)) for clock in (_BOOTTIME, _REALTIME)]
        self._packet(_FIRST, message(_CLOCKS, *clocks, number(2, _BOOTTIME)))

    def _packet(self, *parts: bytes) -> None:
        self._file.write(message(_PACKET, _ONE, *parts))

    def process(self, pid: int, name: str) -> int:
        """Return the track of a process."""
        return self._describe(message(3, number(1, pid), text(6, name)), number(11, _EXPLICIT))

    def track(self, name: str, parent: int, rank: int = 0) -> int:
        """Return a track below another. Neighbours with lower ranks come first; those with one name are shown as one."""
        return self._describe(text(2, name), _below(parent), number(12, rank))

    def group(self, name: str, parent: int, rank: int = 0) -> int:
        """Return the track of this name below another, which contains tracks."""
        known = self._groups.get((name, parent))
        if known is None:
            known = self._groups[name, parent] = self.track(name, parent, rank)
        return known

    def counter(self, name: str, parent: int, span: int, rank: int = 0) -> Counter:
        """Return a counter of bytes, written at two times in each `span`."""
        unit = message(8, number(3, _BYTES))
        return Counter(self, self._describe(text(2, name), unit, _below(parent), number(12, rank)), span)

    def _describe(self, *parts: bytes) -> int:
        self._tracks += 1
        self._packet(message(_DESCRIPTOR, number(1, self._tracks), *parts))
        return self._tracks

    def begin(self, track: int, time: int, name: str, told: Mapping[str, Any]) -> None:
        """Begin a slice."""
        self._event(_BEGIN, track, time, name, told)

    def end(self, track: int, time: int) -> None:
        """End the last slice of this track."""
        event = message(_TRACK_EVENT, number(9, _END), number(11, track))
        self._packet(number(_TIMESTAMP, time * 1000), event)

    def instant(self, track: int, time: int, name: str, told: Mapping[str, Any]) -> None:
        """Add a named point in time."""
        self._event(_INSTANT, track, time, name, told)

    def _event(self, kind: int, track: int, time: int, name: str, told: Mapping[str, Any]) -> None:
        fresh: list[bytes] = []
        notes = [self._note(key, value, fresh) for key, value in told.items() if value is not None]
        event = message(_TRACK_EVENT, number(9, kind), number(11, track), text(23, name), *notes)
        interned = message(_INTERNED, *fresh) if fresh else b""
        self._packet(number(_TIMESTAMP, time * 1000), _LATER, interned, event)

    def _note(self, key: str, value: Any, fresh: list[bytes]) -> bytes:
        """Return an annotation of an event: a name, and a number or text."""
        name = number(1, _number(self._names, key, 3, fresh))
        if isinstance(value, int):
            return message(4, name, number(4, value))
        return message(4, name, number(17, _number(self._texts, str(value), 29, fresh)))

    def value(self, track: int, time: int, value: int) -> None:
        """Set the value of a counter."""
        event = message(_TRACK_EVENT, number(9, _COUNTER), number(11, track), _VALUE, varint(value))
        self._packet(number(_TIMESTAMP, time * 1000), event)


class Counter:
    """The bytes alive on a track. In each `span` of time the most is told, and the last: so the peak is exact."""

    def __init__(self, out: Packets, track: int, span: int) -> None:
        self._out = out
        self._track = track
        self._span = span
        self._bytes = 0
        self._most = self._last = (-1, 0)  # when, and how many
        self._part = -1

    def add(self, time: int, change: int) -> None:
        """So many bytes more; changes come in the order of time."""
        # What changes at one moment has one sum: the value before it was never there.
        if time != self._last[0]:
            self._settle()
        part = time // self._span
        if part != self._part:
            self._tell()
            self._part = part
            self._most = (-1, -1)
        self._bytes += change
        self._last = (time, self._bytes)

    def _settle(self) -> None:
        if self._last[0] >= 0 and self._last[1] > self._most[1]:
            self._most = self._last

    def _tell(self) -> None:
        if self._last[0] < 0:
            return
        if 0 <= self._most[0] < self._last[0]:
            self._out.value(self._track, *self._most)
        self._out.value(self._track, *self._last)

    def done(self) -> None:
        """Write what is left."""
        self._settle()
        self._tell()


def _below(parent: int) -> bytes:
    return number(5, parent) if parent else b""


def _number(known: dict[str, int], word: str, field: int, fresh: list[bytes]) -> int:
    """Return the number of an interned string; a new one is written with the event."""
    found = known.get(word)
    if found is None:
        found = known[word] = len(known) + 1
        fresh.append(message(field, number(1, found), text(2, word)))
    return found
