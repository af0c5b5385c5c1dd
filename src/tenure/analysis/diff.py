"""What is new, gone, grown or shrunk between two traces, or between two moments of one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tenure.analysis.amounts import UNKNOWN, apart, by, source
from tenure.analysis.peak import alive_on, device_of, is_host, used_devices, with_kinds
from tenure.analysis.scan import Scan
from tenure.errors import TraceError
from tenure.model import size

Moment = int | float | datetime | None


@dataclass(frozen=True, slots=True)
class Change:
    """One line of source, or one kind: the bytes and buffers before and after."""

    name: str
    before: int
    after: int
    count_before: int
    count_after: int
    file: str | None = None
    line: int | None = None

    @property
    def bytes(self) -> int:
        """By how much it grew; below zero if it shrank."""
        return self.after - self.before

    @property
    def text(self) -> str:
        """The line of source, where it can still be read."""
        return source(self.file, self.line)

    def __str__(self) -> str:
        sign = "+" if self.bytes >= 0 else "-"
        counts = f"{self.count_before:,} -> {self.count_after:,} x"
        return f"{sign + size(abs(self.bytes)):>12}  {size(self.before):>10} -> {size(self.after):<10} {counts}  {self.name}"


@dataclass(frozen=True, slots=True)
class Diff:
    """Two looks at what is alive on a device, `before` and `after` being their bytes."""

    device: str
    names: tuple[str, str]
    before: int
    after: int
    new: tuple[Change, ...]
    gone: tuple[Change, ...]
    grown: tuple[Change, ...]
    shrunk: tuple[Change, ...]
    kinds: tuple[Change, ...]

    @property
    def bytes(self) -> int:
        """By how much more is alive."""
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
        return "\n".join([*lines, "by kind", *map(str, self.kinds)] if self.kinds else lines)


def _told(change: Change) -> Iterable[str]:
    yield str(change)
    if change.text:
        yield f"{'':>14}{change.text}"


@dataclass(frozen=True, slots=True)
class Look:
    """A moment of a trace: the end of a step (int), seconds after the beginning (float), a time, or None for the peak."""

    scan: Scan
    name: str
    at: Moment = None

    def micro(self, device: int) -> int:
        """The moment in µs since 1970."""
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
    (first, first_kinds, label), (second, second_kinds, other_label) = sides
    changes = sorted(_changes(first, second), key=lambda one: (-abs(one.bytes), one.name))
    return Diff(
        device=name,
        names=(label, other_label),
        before=sum(total for total, _ in first.values()),
        after=sum(total for total, _ in second.values()),
        new=tuple(one for one in changes if not one.before),
        gone=tuple(one for one in changes if not one.after),
        grown=tuple(one for one in changes if one.before and one.after > one.before),
        shrunk=tuple(one for one in changes if one.after and one.before > one.after),
        kinds=tuple(sorted(_changes(first_kinds, second_kinds), key=lambda one: (-abs(one.bytes), one.name))),
    )


def _device(before: Scan, after: Scan) -> str:
    """The device that both are about: an accelerator if one of them has any."""
    found = [scan.words("device")[number] for scan in (after, before) if (number := device_of(scan)) is not None]
    if not found:
        raise TraceError("nothing was ever alive in either trace")
    return next((name for name in found if not is_host(name)), found[0])


def _side(look: Look, device: int | None) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]], str]:
    if device is None:
        return {}, {}, look.name
    alive = alive_on(look.scan, device, look.micro(device))
    sites = by(alive, "site", look.scan.words("site"))
    kinds = by(with_kinds(look.scan, alive), "kind", None)
    return _named(sites), _named(kinds), look.label(device)


def _named(rows: Iterable[tuple[Any, int, int]]) -> dict[str, tuple[int, int]]:
    return {name or UNKNOWN: (total, count) for name, total, count in rows}


def _changes(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> Iterable[Change]:
    for name in {**before, **after}:
        (old, many), (new, more) = before.get(name, (0, 0)), after.get(name, (0, 0))
        if old != new:
            yield Change(name, old, new, many, more, *apart(name)[:2])
