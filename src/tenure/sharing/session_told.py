"""What a session says: of its end, of what was born in it, and to those who come too late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tenure.errors import SessionClosed, Unsupported
from tenure.model import Remains, Site

if TYPE_CHECKING:
    from tenure.findings import Finding


@dataclass(frozen=True)
class Closing:
    """Where and why a session was closed, and what whoever comes too late should have done."""

    site: Site | None
    why: str
    fix: str = "do it before the closing"


@dataclass(frozen=True)
class Report:
    """What became of a session: how its runs ended, which tensors left it as results, and what remains of the others.

    `ended` is False while a lease, or a run that the closing was asked from, still keeps it. Tensors that died inside
    their run are not counted.
    """

    name: str
    opened: Site | None
    closed: Site | None
    why: str
    done: int
    failed: int
    cancelled: int
    escaped: int
    leased: tuple[Site | None, ...] = ()
    going: int = 0
    ended: bool = True
    find: Callable[[], Remains] = field(default=Remains, repr=False, compare=False)
    _found: list[Remains] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def remains(self) -> Remains:
        """What became of the tensors that were born in it and were nobody's result, as of when this is first read."""
        if not self._found:
            self._found.append(self.find())
        return self._found[0]

    @property
    def born(self) -> int:
        """The tensors that outlived the run they were born in: results, and what the session ended."""
        return self.escaped + sum(len(remnant.tensors) for remnant in self.remains)

    def __str__(self) -> str:
        runs = f"{self.done} done, {self.failed} failed, {self.cancelled} cancelled"
        where = f" at {self.closed.short}" if self.closed else ""
        if not self.ended:
            kept = [f"{self.going} run{'s' if self.going > 1 else ''}"] if self.going else []
            kept += [f"a lease taken at {site.short if site else 'an unknown place'}" for site in self.leased]
            return f"session {self.name!r} was closed{where}, and ends after {', '.join(kept) or 'what it does'}"
        lines = [f"session {self.name!r} ended, {self.why}{where}", f"  runs: {runs}"]
        lines.append(f"  tensors that left it as results: {self.escaped}")
        if len(self.remains):
            first, *rest = str(self.remains).splitlines()
            lines.append(f"  of what was nobody's result: {first}")
            counted = Counter(rest)  # a loop leaves many that are alike
            lines += [f"  {line}" + (f" ({count} times)" if count > 1 else "") for line, count in counted.items()]
        return "\n".join(lines)


def late(
    name: str, opened: Site | None, closing: Closing, what: str, used: Site | None, leased: tuple[Site | None, ...] = ()
) -> SessionClosed:
    """The error for what comes after the end."""
    lines = [f"session {name!r} is closed, and {what} came too late"]
    lines.append(f"  opened: {_place(opened)}")
    if closing.site is None or closing.site == opened:
        lines.append(f"  closed: {closing.why}" + (f" ({opened.short})" if closing.site and opened else ""))
    else:
        lines.append(f"  closed: {_place(closing.site, f', {closing.why}')}")
    lines += [f"  leased: {_place(site, ', still open, for its holder alone')}" for site in leased]
    if used:
        lines.append(f"  late:   {_place(used)}")
    lines.append(f"  fix:    {closing.fix}; or, for a helper, thread or task that goes on past its end,")
    lines.append("          take `lease = session.lease()` in time and use that: the session ends with its last lease")
    error = SessionClosed("\n".join(lines))
    error.opened, error.closed, error.used = opened, closing.site, used
    return error


def refused(finding: Finding) -> Unsupported:
    """The error for what a session cannot run: its text is the finding, which `explain` gives again."""
    lines = [f"[{finding.code}] {finding.message}"]
    words = {"birth": "made:", "use": "used:", "end": "ended:"}
    lines += [
        f"  {words.get(place.role, 'here:'):<6} {_place(Site(place.file, place.line, place.function))}"
        for place in finding.places
    ]
    lines.append(f"  why:   {finding.reason}")
    if finding.fix:
        lines.append(f"  fix:   {finding.fix.message}")
    error = Unsupported("\n".join(lines))
    error.finding = finding
    return error


def named(what: Any) -> str:
    """What was to be run, in a word or two."""
    name = getattr(what, "__qualname__", None) or getattr(getattr(what, "func", None), "__qualname__", None)
    if isinstance(name, str):
        return f"{name.replace('<locals>.', '')}()"
    return f"{type(what).__name__}()" if callable(what) else f"the run of {what!r:.60}"


def _place(site: Site | None, more: str = "") -> str:
    if site is None:
        return f"place unknown{more}"
    return f"{site}{more}" + (f":  {site.text}" if site.text else "")
