"""The report of a session, and its error texts."""

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
    """The place and reason of a session's close, and how to fix a later use."""

    site: Site | None
    why: str
    fix: str = "do it before the session is closed"


@dataclass(frozen=True)
class Report:
    """The report of a session: its runs, how many tensors they returned, and what remains of the others.

    `ended` is False while a lease, or the run that closed the session, still uses it. Tensors that were freed during
    their run are not counted.

    Attributes:
        name: The name of the session.
        opened: The `Site` where it was opened.
        closed: The `Site` where it was closed.
        why: What closed it, as text.
        done: The number of runs that returned.
        failed: The number of runs that raised.
        cancelled: The number of runs that were cancelled.
        escaped: The number of tensors that runs returned.
        leased: The `Site` of each lease that is still open.
        going: The number of runs that have not finished.
        ended: Whether the session has finished.
        find: The function that `remains` calls once. Not part of the comparison.
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
        """The tensors that runs created and did not return. The first read searches for what retains them."""
        if not self._found:
            self._found.append(self.find())
        return self._found[0]

    @property
    def born(self) -> int:
        """The number of tensors that outlived their run: results, and those that the session released."""
        return self.escaped + sum(len(remnant.tensors) for remnant in self.remains)

    def __str__(self) -> str:
        runs = f"{self.done} done, {self.failed} failed, {self.cancelled} cancelled"
        where = f" at {self.closed.short}" if self.closed else ""
        if not self.ended:
            kept = [f"{self.going} run{'s' if self.going > 1 else ''}"] if self.going else []
            kept += [f"a lease taken at {site.short if site else 'an unknown place'}" for site in self.leased]
            return f"session {self.name!r} was closed{where}, and finishes after {', '.join(kept) or 'its last run'}"
        lines = [f"session {self.name!r} was closed {self.why}{where}", f"  runs: {runs}"]
        lines.append(f"  tensors returned: {self.escaped}")
        if len(self.remains):
            first, *rest = str(self.remains).splitlines()
            lines.append(f"  other tensors: {first}")
            counted = Counter(rest)  # a loop leaves many that are alike
            lines += [f"  {line}" + (f" ({count} times)" if count > 1 else "") for line, count in counted.items()]
        return "\n".join(lines)


def late(
    name: str, opened: Site | None, closing: Closing, what: str, used: Site | None, leased: tuple[Site | None, ...] = ()
) -> SessionClosed:
    """Return the error for a use of a closed session."""
    lines = [f"cannot run {what}: session {name!r} is already closed"]
    lines.append(f"  opened: {_place(opened)}")
    if closing.site is None or closing.site == opened:
        lines.append(f"  closed: {closing.why}" + (f" ({opened.short})" if closing.site and opened else ""))
    else:
        lines.append(f"  closed: {_place(closing.site, f', {closing.why}')}")
    lines += [f"  leased: {_place(site, ', still open')}" for site in leased]
    if used:
        lines.append(f"  used:   {_place(used)}")
    lines.append(f"  fix:    {closing.fix}; or, for a helper, thread or task that runs longer,")
    lines.append(
        "          call `lease = session.lease()` before that, and use the lease: the session closes when its last lease is released"
    )
    error = SessionClosed("\n".join(lines))
    error.opened, error.closed, error.used = opened, closing.site, used
    return error


def refused(finding: Finding) -> Unsupported:
    """Return the error for what a session cannot run: its text is the finding, which `explain` returns again."""
    lines = [f"[{finding.code}] {finding.message}"]
    words = {"birth": "created:", "use": "used:", "end": "ended:"}
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
    """Return a short name for what was to be run."""
    name = getattr(what, "__qualname__", None) or getattr(getattr(what, "func", None), "__qualname__", None)
    if isinstance(name, str):
        return f"{name.replace('<locals>.', '')}()"
    return f"{type(what).__name__}()" if callable(what) else f"{what!r:.60}"


def _place(site: Site | None, more: str = "") -> str:
    if site is None:
        return f"place unknown{more}"
    return f"{site}{more}" + (f":  {site.text}" if site.text else "")
