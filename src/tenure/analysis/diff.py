"""What is new, gone, grown or shrunk between two traces, or between two moments of one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tenure import untrusted
from tenure.analysis.amounts import UNKNOWN, apart, by, files_of, source
from tenure.analysis.moved import moved
from tenure.analysis.peak import alive_on, device_of, is_host, used_devices, with_kinds
from tenure.analysis.scan import Scan
from tenure.errors import TraceError
from tenure.model import size

Moment = int | float | datetime | None
_Amounts = dict[str, tuple[int, int]]  # bytes and buffers by name
_NONE = (0, 0)


@dataclass(frozen=True, slots=True)
class Change:
    """The bytes and buffers of one source line or one kind, before and after.

    Attributes:
        name: The source line or the kind, as text.
        before: The bytes before.
        after: The bytes after.
        count_before: The number of buffers before.
        count_after: The number of buffers after.
        file: The path of the source file, or None.
        line: The line number, or None.
        text: The source line, if it is known.
    """

    name: str
    before: int
    after: int
    count_before: int
    count_after: int
    file: str | None = None
    line: int | None = None
    text: str = ""

    @property
    def bytes(self) -> int:
        """The growth in bytes; negative if it shrank."""
        return self.after - self.before

    def __str__(self) -> str:
        sign = "+" if self.bytes >= 0 else "-"
        counts = f"{self.count_before:,} -> {self.count_after:,} x"
        return f"{sign + size(abs(self.bytes)):>12}  {size(self.before):>10} -> {size(self.after):<10} {counts}  {self.name}"


@dataclass(frozen=True, slots=True)
class Diff:
    """The difference between two points in time on a device.

    Attributes:
        device: The name of the device.
        names: What was compared, as text.
        before: The bytes alive before.
        after: The bytes alive after.
        new: A `Change` for each source line that has buffers only after.
        gone: A `Change` for each source line that has buffers only before.
        grown: A `Change` for each source line with more bytes after.
        shrunk: A `Change` for each source line with fewer bytes after.
        kinds: A `Change` for each kind.
        notes: What makes the comparison less certain, as text.
    """

    device: str
    names: tuple[str, str]
    before: int
    after: int
    new: tuple[Change, ...]
    gone: tuple[Change, ...]
    grown: tuple[Change, ...]
    shrunk: tuple[Change, ...]
    kinds: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The difference in bytes alive."""
        return self.after - self.before

    def __str__(self) -> str:
        sign = "+" if self.bytes >= 0 else "-"
        lines = [
            f"{self.names[0]}: {size(self.before)} on {self.device}",
            f"{self.names[1]}: {size(self.after)} ({sign}{size(abs(self.bytes))})",
        ]
        for title, changes in (("new", self.new), ("grown", self.grown), ("shrunk", self.shrunk), ("gone", self.gone)):
            if changes:
                lines += [title, *(line for change in changes for line in _told(change))]
        lines += ["by kind", *map(str, self.kinds)] if self.kinds else []
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def _told(change: Change) -> Iterable[str]:
    yield str(change)
    if change.text:
        yield f"{'':>14}{change.text}"


@dataclass(frozen=True, slots=True)
class Look:
    """A point in time of a trace: the end of a step (int), seconds after the start (float), a datetime, or None for the peak.

    `source` reads the source files as they were when the trace was recorded.
    """

    scan: Scan
    name: str
    at: Moment = None
    source: untrusted.SourceReader | None = None

    def micro(self, device: int) -> int:
        """Return the time in µs since 1970."""
        if self.at is None:
            return self.scan.peaks()[device][1]
        if isinstance(self.at, bool) or not isinstance(self.at, int | float | datetime):
            raise TypeError(f"a step (int), seconds (float) or a datetime is needed, not {type(self.at).__name__}")
        if isinstance(self.at, int):
            return self._step_end(self.at)
        if isinstance(self.at, float):
            return self.scan.facts[0] + round(self.at * 1e6)
        since = self.at.astimezone(UTC) - datetime.fromtimestamp(0, UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

    def _step_end(self, step: int) -> int:
        times = max(self.scan.steps, key=len, default=None)
        if not times or not 0 <= step < len(times):
            raise TraceError(f"{self.name} has no step {step}; it has {len(times or ()):,} steps")
        return times[step]

    def label(self, device: int) -> str:
        """The look in words."""
        if self.at is None:
            return f"{self.name} at its peak"
        seconds = (self.micro(device) - self.scan.facts[0]) / 1e6
        step = max((bisect_right(times, self.micro(device)) for times in self.scan.steps), default=0)
        inside = f"after step {self.at}" if isinstance(self.at, int) else f"in step {step}" if step else ""
        return f"{self.name} at {seconds:.2f} s" + (f", {inside}" if inside else "")


def diff(before: Look, after: Look, device: str | None = None) -> Diff:
    """What changed on a device from one look to the other."""
    name = device or _device(before.scan, after.scan)
    sides = []
    for look in (before, after):
        number = look.scan.words("device").index(name) if name in used_devices(look.scan) else None
        sides.append(_side(look, number))
    (old, old_kinds, label), (new, new_kinds, other_label) = sides
    lines = sorted(_line_changes(before, after, old, new), key=_largest)
    return Diff(
        device=name,
        names=(label, other_label),
        before=sum(total for total, _ in old.values()),
        after=sum(total for total, _ in new.values()),
        new=tuple(one for one in lines if not one.before),
        gone=tuple(one for one in lines if not one.after),
        grown=tuple(one for one in lines if one.before and one.after > one.before),
        shrunk=tuple(one for one in lines if one.after and one.before > one.after),
        kinds=tuple(sorted(_kind_changes(old_kinds, new_kinds), key=_largest)),
        notes=tuple(_notes(before, after, (*old, *new))),
    )


def _largest(change: Change) -> tuple[int, str]:
    return -abs(change.bytes), change.name


def _device(before: Scan, after: Scan) -> str:
    """The device that both are about: an accelerator if one of them has any."""
    found = [scan.words("device")[number] for scan in (after, before) if (number := device_of(scan)) is not None]
    if not found:
        raise TraceError("nothing was ever alive in either trace")
    return next((name for name in found if not is_host(name)), found[0])


def _side(look: Look, device: int | None) -> tuple[_Amounts, _Amounts, str]:
    if device is None:
        return {}, {}, look.name
    alive = alive_on(look.scan, device, look.micro(device))
    sites = by(alive, "site", look.scan.words("site"))
    kinds = by(with_kinds(look.scan, alive), "kind", None)
    return _named(sites), _named(kinds), look.label(device)


def _named(rows: Iterable[tuple[Any, int, int]]) -> _Amounts:
    return {name or UNKNOWN: (total, count) for name, total, count in rows}


def _kind_changes(old: _Amounts, new: _Amounts) -> Iterator[Change]:
    for name in {**old, **new}:
        before, after = old.get(name, _NONE), new.get(name, _NONE)
        if before != after:
            yield Change(name, before[0], after[0], before[1], after[1])


def _line_changes(before: Look, after: Look, old: _Amounts, new: _Amounts) -> Iterator[Change]:
    """The lines that differ, named as they are after; a line that is not there any more, as it was before."""
    names = _names_after(before, after, old)
    left = {names[name]: name for name in old if names[name] is not None}
    for name, amount in new.items():
        was = left.get(name)
        if (known := _NONE if was is None else old[was]) != amount:
            yield _line_change(name, known, amount, _text(after, name))
    for name, amount in old.items():
        now = names[name]
        if now is None or now not in new:
            yield _line_change(now or name, amount, _NONE, _text(before, name))


def _line_change(name: str, before: tuple[int, int], after: tuple[int, int], text: str) -> Change:
    return Change(name, before[0], after[0], before[1], after[1], *apart(name)[:2], text)


def _text(look: Look, name: str) -> str:
    with untrusted.reading(look.source):
        return source(*apart(name)[:2])


def _names_after(before: Look, after: Look, names: Iterable[str]) -> dict[str, str | None]:
    """What each site is called after, where its line may have another number; None if the line is gone."""
    found: dict[str, str | None] = {name: name for name in names}
    for file, numbers in _moves(before, after, files_of(found)).items():
        for name in found:
            path, line, function = apart(name)
            if path == file and line is not None:
                number = numbers.get(line)
                inside = f" in {function}" if function else ""
                found[name] = None if number is None else f"{file}:{number}{inside}"
    return found


def _moves(before: Look, after: Look, files: Iterable[str]) -> dict[str, dict[int, int]]:
    """The new line numbers in the files of which both versions are known, and differ."""
    found = {}
    for file in files:
        old, new = _lines(before, file), _lines(after, file)
        if old and new and old != new:
            found[file] = moved(old, new)
    return found


def _lines(look: Look, file: str) -> list[str]:
    with untrusted.reading(look.source):
        return untrusted.lines(file) if file.endswith((".py", ".pyw")) else []


def _notes(before: Look, after: Look, names: Iterable[str]) -> Iterator[str]:
    """Which files are not known as they were, so that their lines are compared by number."""
    if before.scan is after.scan:
        return
    for file in files_of(names):
        lost = [look.name for look in (before, after) if look.source is not None and look.source.is_lost(file)]
        if lost:
            yield f"{file} was changed since {' and '.join(lost)} recorded it: lines are compared by their numbers"
