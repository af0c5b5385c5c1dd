"""The data of one screen of `tenure top`: numbers, and short texts that are safe to print."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tenure.views.formats.text import clean

Order = Literal["bytes", "growth", "count", "line"]
ORDERS: tuple[Order, ...] = ("bytes", "growth", "count", "line")
ALL = -1  # for the number of a process
LONGEST = 400  # letters of any text of a trace


def safe(text: str, longest: int = LONGEST) -> str:
    """Return text of a trace without control codes, on one line, cut."""
    told = text[: longest + 1]
    if not told.isprintable():
        told = clean(told)
    return told if len(told) <= longest else told[: longest - 1] + "…"


@dataclass(frozen=True, slots=True)
class Wish:
    """The view that the user selected.

    `process` is a number, or ALL for all together; None for what was asked for at first. Lines are those that contain
    a text, of one `device` or of all. The curve has so many parts, and is so many minutes long.
    """

    process: int | None = None
    order: Order = "bytes"
    containing: str = ""
    device: str = ""
    parts: int = 60
    minutes: float = 2.0


@dataclass(frozen=True, slots=True)
class Process:
    """One process in the list of them."""

    number: int
    name: str  # "rank 3", or "pid 4242"
    state: str
    bytes: int = 0
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the user's program, and what is alive of it."""

    bytes: int
    growth: float | None
    rises: bool
    count: int
    device: str
    place: str
    source: str


@dataclass(frozen=True, slots=True)
class Note:
    """A finding, or what may become one: its title, what it says, and who holds what."""

    title: str
    message: str
    path: tuple[str, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Picture:
    """One look at the run."""

    title: str
    status: str
    state: str
    subject: str  # whose numbers these are
    device: str
    bytes: int
    peak: int
    peak_ago: float | None  # seconds
    step: int | None
    rate: float | None
    growth: float | None
    devices: tuple[str, ...]
    others: str  # devices that are not shown, in words
    curve: tuple[int, ...]
    seconds: float  # that the curve is long
    rows: tuple[Row, ...]
    more: int  # rows that are not shown
    notes: tuple[Note, ...]
    processes: tuple[Process, ...] = ()
    shown: int | None = None  # which of them; None for all
    troubles: tuple[str, ...] = ()
    wish: Wish = field(default_factory=Wish)
