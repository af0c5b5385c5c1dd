"""What was held past its last use: bytes x time by line, and what would have lowered the peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.analysis.amounts import apart, source
from tenure.analysis.peak import alive_on, device_of, past_use
from tenure.analysis.release import Release, release
from tenure.analysis.relief import Life, Player, stretches
from tenure.analysis.rows import rows_of
from tenure.analysis.scan import NEVER, Scan, Source
from tenure.model import Site, size

LINES = 10
# Less is not worth reading about.
SHARE, LEAST = 0.05, 1 << 20
_LOOKED_AT = 400  # lives
# These are somebody's to keep: the optimizer's, the module's.
_SPARED = ("parameter", "gradient", "optimizer state")


@dataclass(frozen=True, slots=True)
class Line:
    """The buffers of one source line: bytes x seconds between last use and release, their number and bytes."""

    byte_seconds: float
    bytes: int
    count: int
    file: str | None
    line: int | None
    function: str | None
    text: str = ""

    def __str__(self) -> str:
        place = "place unknown" if self.file is None else f"{self.file}:{self.line}"
        return f"{size(round(self.byte_seconds)):>12} x s {self.count:>7,} x  {place}"


@dataclass(frozen=True, slots=True)
class Advice:
    """A `del` that lowers the peak of a process, verified by a replay of the trace.

    Attributes:
        release: Which names to delete, and after which line.
        bytes: The bytes that were still allocated at the peak, after their last use.
        count: The number of their buffers.
        peak: The peak of the process in bytes.
        left: The peak in bytes with this `del`.
        born: The `Site` that allocated them.
        used: The `Site` of their last use.
        ended: The `Site` where they were freed, or None.
        process: The number of the process.
        played: The number of events that the replay covered.
        events: The number of events of the process.
    """

    release: Release
    bytes: int
    count: int
    peak: int
    left: int
    born: Site
    used: Site
    ended: Site | None
    process: int
    played: int
    events: int

    @property
    def saved(self) -> int:
        """The bytes by which the peak drops."""
        return self.peak - self.left

    @property
    def names(self) -> str:
        """The names to delete."""
        return ", ".join(self.release.names)

    @property
    def text(self) -> str:
        """The change to make, as text."""
        where = f"after line {self.release.last}"
        if self.release.moved is not None:
            return f"move `del {self.names}` from line {self.release.moved} up to {where.removeprefix('after ')}"
        return f"add `del {self.names}` {where}"

    def __str__(self) -> str:
        return f"{self.text} of {self.release.file}: peak memory drops by {size(self.saved)}, from {size(self.peak)} to {size(self.left)}"


@dataclass(frozen=True, slots=True)
class Drag:
    """The buffers that stay allocated after their last use, and which `del` lowers the peak.

    Attributes:
        device: The name of the device.
        peak: The peak in bytes.
        past: The bytes of the peak that were still allocated after their last use.
        lines: The source lines with the most bytes x seconds after the last use.
        advice: The changes that lower the peak, the largest saving first.
    """

    device: str
    peak: int
    past: int
    lines: tuple[Line, ...]
    advice: tuple[Advice, ...]

    def __str__(self) -> str:
        share = self.past / self.peak if self.peak else 0
        head = f"Of the peak of {self.device}, {size(self.peak)}, {size(self.past)} ({share:.0%}) was still allocated after its last use"
        return "\n".join(
            [
                head,
                *map(str, self.advice),
                "still allocated after the last use, in bytes x seconds",
                *map(str, self.lines),
            ]
        )


def drag(scan: Scan, device: str | None = None) -> Drag | None:
    """What is held past its last use on a device; None if nothing was ever alive on it, or no uses are told."""
    from pyarrow import compute

    number = device_of(scan, device)
    if number is None or not scan.tells_uses:
        return None
    most, at, _ = scan.peaks()[number]
    past = past_use(scan, alive_on(scan, number, at), at)
    return Drag(
        device=scan.words("device")[number],
        peak=most,
        past=int(compute.sum(past["bytes"]).as_py() or 0),
        lines=_lines(scan),
        advice=tuple(sorted(_advice(scan, number), key=lambda one: (-one.saved, one.release.file, one.release.last))),
    )


def _lines(scan: Scan) -> tuple[Line, ...]:
    found = []
    for name, row in zip(scan.words("site"), scan.sites().to_pylist(), strict=False):
        if row["drag"]:
            found.append(Line(row["drag"] / 1e6, row["bytes"], row["births"], *apart(name), source(*apart(name)[:2])))
    return tuple(sorted(found, key=lambda line: (-line.byte_seconds, line.file or "", line.line or 0))[:LINES])


def _advice(scan: Scan, device: int) -> list[Advice]:
    """Of each process, at its own peak. What ranks of one program all do is told once, of the one that gains most."""
    found: dict[Release, Advice] = {}
    for source_ in highest_peaks(scan, device):
        for advice in _of_process(scan, source_, device):
            before = found.get(advice.release)
            if before is None or advice.saved > before.saved:
                found[advice.release] = advice
    return list(found.values())


def highest_peaks(scan: Scan, device: int, least: int = LEAST) -> Sequence[Source]:
    """Return the processes with the highest peaks: in a folder of many ranks, a few represent all."""
    ordered = sorted(scan.sources, key=lambda one: -scan.peaks(one.at)[device][0])
    return [one for one in ordered[:4] if scan.peaks(one.at)[device][0] >= least]


def _of_process(scan: Scan, source_: Source, device: int) -> list[Advice]:
    most, at, _ = scan.peaks(source_.at)[device]
    floor = max(LEAST, round(most * SHARE))
    player = Player(release, scan.words("kind"), _SPARED)
    held: dict[Release, list[Life]] = {}
    for life in past_lives(scan, source_, device, at):
        one = player.judged(life)
        if one is not None:
            held.setdefault(one, []).append(life)
    wanted = {one: lives for one, lives in held.items() if sum(life.bytes for life in lives) >= floor}
    if not wanted:
        return []
    played = stretches(scan, source_, device, at)
    rows = sum(stretch.rows for stretch in played)
    found = []
    for one, relief in player.reliefs(played, wanted).items():
        lives = [life for life in wanted[one] if not player.is_held_elsewhere(life)]
        if not lives:
            continue
        first = max(lives, key=lambda life: life.bytes)
        if most - relief.peak < floor:
            continue
        last = next(site for site in player.stack(first.last_stack or first.stack) if one.inside([site]))
        end = player.stack(first.end_stack) if first.ended < NEVER else ()
        born = Site(one.file, one.born, one.function)
        found.append(
            Advice(
                release=one,
                bytes=sum(life.bytes for life in lives),
                count=len(lives),
                peak=most,
                left=relief.peak,
                born=born,
                used=last,
                ended=end[0] if end else None,
                process=source_.numbers.stream.process.number,
                played=rows,
                events=source_.numbers.stream.process.events,
            )
        )
    return found


def past_lives(scan: Scan, source_: Source, device: int, at: int) -> list[Life]:
    """The largest lives that were past their last use at a moment."""
    from pyarrow import compute

    alive = scan.alive(at, [source_])
    past = past_use(scan, alive.filter(compute.equal(alive["device"], device)), at)
    lives = past.sort_by([("bytes", "descending"), ("born", "ascending")]).slice(0, _LOOKED_AT).to_pylist()
    births, ends = rows_of(scan, lives, ("stack",)), rows_of(scan, lives, ("stack", "last_stack"), end=True)
    found = []
    for row in lives:
        key = (source_.at, row["buffer"])
        end = ends.get(key, {})
        found.append(
            Life(
                row["bytes"], row["born"], row["last_use"], row["ended"], births.get(key, {}).get("stack"),
                end.get("last_stack"), end.get("stack") if row["ended"] < NEVER else None, row["kind"],
            )
        )  # fmt: skip
    return found
