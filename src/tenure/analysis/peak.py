"""The moment with the most bytes alive, and what they were."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.analysis.amounts import Amount, SiteAmount, amounts, apart, by, moment, named_by, source
from tenure.analysis.rows import rows_of
from tenure.analysis.scan import NEVER, Scan
from tenure.errors import TraceError
from tenure.model import size

SITES = 10


@dataclass(frozen=True, slots=True)
class Rank:
    """One process at its own peak; `times` is its peak as a multiple of the median of all processes."""

    process: int
    rank: int | None
    bytes: int
    time: datetime
    times: float

    @property
    def name(self) -> str:
        """The name of the process in reports: `rank 3`."""
        return f"process {self.process}" if self.rank is None else f"rank {self.rank}"


@dataclass(frozen=True, slots=True)
class Peak:
    """The point in time with the most bytes alive on a device, over all processes, and what was alive then.

    Attributes:
        bytes: The bytes alive.
        time: The time of the peak.
        seconds: The same, in seconds after the start of the trace.
        step: The step, or None if the trace has no steps.
        device: The name of the device.
        count: The number of buffers alive.
        past: The bytes that were still allocated after their last use.
        sites: The source lines that allocated the most of it.
        kinds: The same bytes by kind, such as "parameter" or "gradient".
        scopes: The same bytes by scope.
        steps: The same bytes by the step that allocated them.
        devices: The peak of each device, at its own time.
        ranks: The peak of each process, at its own time.
    """

    bytes: int
    time: datetime
    seconds: float
    step: int | None
    device: str
    count: int
    past: int
    sites: tuple[SiteAmount, ...]
    kinds: tuple[Amount, ...]
    scopes: tuple[Amount, ...]
    steps: tuple[Amount, ...]
    devices: tuple[Amount, ...]
    ranks: tuple[Rank, ...]

    @property
    def share_past(self) -> float:
        """The part of the peak that was still allocated after its last use, from 0 to 1."""
        return self.past / self.bytes if self.bytes else 0.0

    def __str__(self) -> str:
        step = "" if self.step is None else f", in step {self.step}"
        past = f", {size(self.past)} ({self.share_past:.0%}) of it after its last use" if self.past else ""
        lines = [f"Peak of {self.device}: {size(self.bytes)} at {self.seconds:.2f} s{step}{past}"]
        for site in self.sites:
            lines.append(str(site))
            if site.text:
                lines.append(f"{'':>25}{site.text}")
        return "\n".join([*lines, "by kind", *map(str, self.kinds)])


def device_of(scan: Scan, name: str | None = None) -> int | None:
    """The number of a device: the accelerator with the highest peak, or, where there is none, the host's memory."""
    words = scan.words("device")
    if name is not None:
        if name not in words:
            raise TraceError(f"the trace has no device {name!r}; it has {', '.join(used_devices(scan)) or 'none'}")
        return words.index(name)
    found = [(not is_host(words[at]), most, -at) for at, (most, _, _) in enumerate(scan.peaks()) if most and words]
    return -max(found)[2] if found else None


def used_devices(scan: Scan) -> list[str]:
    """The devices on which something was born."""
    return [name for name, (most, _, _) in zip(scan.words("device"), scan.peaks(), strict=False) if most]


def is_host(device: str) -> bool:
    """Whether a device is the host's memory."""
    return device.lower().partition(":")[0] in ("cpu", "host")


def peak(scan: Scan, device: str | None = None, sites: int = SITES) -> Peak | None:
    """The peak of a device; None if nothing was ever alive on it."""
    number = device_of(scan, device)
    if number is None:
        return None
    most, at, _ = scan.peaks()[number]
    if not most:
        return None
    alive = alive_on(scan, number, at)
    began = scan.facts[0]
    return Peak(
        bytes=most,
        time=moment(at),
        seconds=(at - began) / 1e6,
        step=_step(scan, alive, at),
        device=scan.words("device")[number],
        count=len(alive),
        past=_sum(past_use(scan, alive, at)),
        sites=by_site(scan, alive, at, sites),
        kinds=amounts(by(with_kinds(scan, alive), "kind", None)),
        scopes=amounts(by(alive, "scope", scan.words("scope"))) if scan.words("scope") else (),
        steps=amounts((step if step >= 0 else None, total, count) for step, total, count in by(alive, "step", None)),
        devices=tuple(
            Amount(scan.words("device")[place], one, 0) for place, (one, _, _) in enumerate(scan.peaks()) if one
        ),
        ranks=_ranks(scan, number),
    )


def alive_on(scan: Scan, device: int, at: int | None) -> Any:
    """The lives of some bytes on a device at a moment."""
    from pyarrow import compute

    alive = scan.alive(at)
    return alive.filter(compute.and_(compute.equal(alive["device"], device), compute.greater(alive["bytes"], 0)))


def used_until(scan: Scan, life: Mapping[str, Any]) -> int:
    """When a life was used last. Where nobody told, to its end: nothing of it is known to be past its last use."""
    if scan.tells_uses:
        return int(max(life["last_use"], life["born"]))
    return int(min(life["ended"], max(scan.facts[1], life["born"])))


def past_use(scan: Scan, alive: Any, at: int) -> Any:
    """Those of the living that nobody used after this moment, nor in it."""
    from pyarrow import compute

    if not scan.tells_uses:
        return alive.slice(0, 0)
    last = compute.max_element_wise(alive["last_use"], alive["born"])
    past = alive.filter(compute.and_(compute.less(last, at), compute.greater(alive["ended"], at)))
    running = _running(scan, alive, past, at)
    return past if running is None else past.filter(compute.not_equal(past["last_use"], running))


def _running(scan: Scan, alive: Any, past: Any, at: int) -> int | None:
    """When the operation began that this moment is within: what it takes is in use, though nobody takes it later.

    An operation is told of before its results are born, so it is the last one before, at the same line.
    """
    from pyarrow import compute

    born = alive.filter(compute.equal(alive["born"], at)).slice(0, 1).to_pylist()
    began = compute.max(past["last_use"]).as_py()
    if not born or not began:
        return None
    taken = past.filter(compute.equal(past["last_use"], began)).slice(0, 1).to_pylist()
    place = rows_of(scan, born, ("site",)).get((born[0]["process"], born[0]["buffer"]), {}).get("site")
    used = rows_of(scan, taken, ("last_site",), end=True)
    return began if place in [row["last_site"] for row in used.values()] else None


def with_kinds(scan: Scan, lives: Any) -> Any:
    """The lives with the words of their kinds; what nobody marked is there from the beginning to the end, or comes and goes."""
    import pyarrow as pa
    from pyarrow import compute

    gone = compute.or_(compute.less(lives["ended"], NEVER), compute.greater(lives["step"], 0))
    plain = compute.if_else(gone, "temporary", "constant")
    marked = compute.if_else(compute.less(lives["kind"], 0), None, lives["kind"])
    told = compute.coalesce(pa.array(scan.words("kind"), pa.string()).take(marked), plain)
    return lives.set_column(lives.schema.get_field_index("kind"), "kind", told)


def by_site(scan: Scan, alive: Any, at: int | None, count: int) -> tuple[SiteAmount, ...]:
    """The lines that made the most of what is alive."""
    sites = scan.words("site")
    past = {} if at is None else {name: total for name, total, _ in by(past_use(scan, alive, at), "site", sites)}
    rows = by(alive, "site", sites)[:count]
    first = _largest(scan, alive, [name for name, _, _ in rows])
    told = rows_of(scan, list(first.values()), ("op",))
    kinds = with_kinds(scan, alive)
    found = []
    for name, total, number in rows:
        file, line, function = apart(name)
        life = first[name]
        op = told.get((life["process"], life["buffer"]), {}).get("op")
        kind = by(kinds.filter(_is_site(scan, kinds, name)), "kind", None)[0][0]
        found.append(SiteAmount(total, number, file, line, function, op, kind, past.get(name, 0), source(file, line)))
    return tuple(found)


def _is_site(scan: Scan, lives: Any, name: str | None) -> Any:
    from pyarrow import compute

    return compute.equal(lives["site"], -1 if name is None else scan.words("site").index(name))


def _largest(scan: Scan, alive: Any, names: Sequence[str | None]) -> dict[str | None, dict[str, Any]]:
    """Of each site its largest life, to look it up."""
    sites = scan.words("site")
    found: dict[str | None, dict[str, Any]] = {}
    wanted = set(names)
    ordered = alive.sort_by([("bytes", "descending"), ("born", "ascending")])
    for at, key in enumerate(ordered["site"].to_pylist()):
        name = named_by(sites, key)
        if name in wanted and name not in found:
            found[name] = ordered.slice(at, 1).to_pylist()[0]
            if len(found) == len(wanted):
                break
    return found


def _step(scan: Scan, alive: Any, at: int) -> int | None:
    """The step that the moment was in: that of what was born then. None in a run without steps."""
    if not any(scan.steps):
        return None
    steps = [
        step for step, born in zip(alive["step"].to_pylist(), alive["born"].to_pylist(), strict=True) if born == at
    ]
    known = [step for step in steps if step >= 0]
    if known:
        return int(max(known))
    return max((bisect_right(times, at) for times in scan.steps if times), default=None)


def _ranks(scan: Scan, device: int) -> tuple[Rank, ...]:
    """The processes at their own peaks. Ranks are compared with each other, not with their helpers."""
    found = [(stream.process, *scan.peaks(at)[device][:2]) for at, stream in enumerate(scan.streams)]
    ranked = [(process, most, at) for process, most, at in found if most and process.rank is not None]
    shown = ranked if len(ranked) > 1 else [one for one in found if one[1]]
    ordered = sorted(most for _, most, _ in shown)
    middle = ordered[len(ordered) // 2] if ordered else 0
    return tuple(
        Rank(process.number, process.rank, most, moment(at), most / middle if middle else 1.0)
        for process, most, at in sorted(shown, key=lambda one: -one[1])
    )


def _sum(table: Any) -> int:
    from pyarrow import compute

    return int(compute.sum(table["bytes"]).as_py() or 0)
