"""Looking on at a run: follows its trace, keeps the sums, and makes pictures of them. It knows no screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tenure.analysis.live import COLUMNS, Live, Places, Reading
from tenure.errors import TenureError
from tenure.findings import Finding
from tenure.trace.following import Followed, Following
from tenure.views.live import rows, standing
from tenure.views.live.picture import Picture, Process, Wish, safe
from tenure.views.live.told import Told

_TOGETHER = 5.0  # seconds between ends of one run
_FLUSHED = 300_000  # µs after which what happened is on disk

Judge = Callable[[Path], tuple[Sequence[Finding], Sequence[str]]]


class Session:
    """One trace that is looked at. `turn` and `picture` may be called by different threads.

    `judge` tells the findings of a trace when it is complete, and what was not judged of it; while it is not complete,
    there are suspects.
    """

    def __init__(self, place: Path, judge: Judge, rank: int | None = None) -> None:
        self.place = place
        self._judge = judge
        self._rank = rank
        self._following = Following(place, COLUMNS)
        self._lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        self._places = Places()
        self._all = Live(self._places)
        self._each: dict[int, Live] = {}
        self._readings: dict[int, Reading] = {}
        self._told = Told(self._following.folder)
        self._verdict: tuple[Finding, ...] | None = None
        self._limits: tuple[str, ...] = ()
        self._ended: dict[int, float] = {}  # when it was seen

    def close(self) -> None:
        """Let go of the trace."""
        self._following.close()

    @property
    def over(self) -> bool:
        """True if no process writes any more, and everything is read and classified."""
        return self._following.over and self._verdict is not None

    @property
    def behind(self) -> int:
        """Bytes of the trace that are not read yet."""
        return self._following.behind

    def turn(self) -> None:
        """Read what has come."""
        times = self._following.restarted
        for one, batches in self._following.read():
            with self._lock:
                if self._following.restarted != times:
                    times = self._following.restarted
                    self._begin()
                self._take(one, batches)
        with self._lock:
            self._told.read()
            self._let_go()
        if self._following.over and self._verdict is None and self._following.followed:
            self._conclude()

    def _take(self, one: Followed, batches: Sequence[object]) -> None:
        for other in self._following.followed:
            self._all.join(other.number)
        live = self._each.setdefault(one.number, Live(self._places))
        reading = self._readings.setdefault(one.number, Reading(self._places))
        try:
            for batch in batches:
                fresh = reading.rows(batch)
                live.feed(one.number, fresh)  # first its own: what cannot be is to spoil no sums but these
                self._all.feed(one.number, fresh)
        except ValueError as error:
            one.note, one.state = f"{one.tail.path} is damaged: it has {error}", "damaged"
        gone = one.state in ("ended", "gone", "damaged") and not one.tail.behind
        for each in (live, self._all):
            if gone:
                each.ended(one.number)
            elif not one.tail.behind:
                each.reached(one.number, time.time_ns() // 1000 - _FLUSHED)

    def _let_go(self) -> None:
        """Drop the memory of processes that exited while others continue. Those that exit together are shown as they were."""
        now = time.monotonic()
        for one in self._following.followed:
            if one.state in ("ended", "gone") and not one.tail.behind:
                self._ended.setdefault(one.number, now)
        if not self._following.over:
            for number in [number for number, since in self._ended.items() if now - _TOGETHER > since > 0]:
                self._ended[number] = 0
                self._all.forget(number)

    def _conclude(self) -> None:
        """Classify the finished run: from now on there are findings instead of leak candidates."""
        try:
            found, limits = self._judge(self.place)
        except TenureError as error:
            found, limits = (), [str(error)]
        with self._lock:
            self._verdict, self._limits = tuple(found), tuple(limits)

    def picture(self, wish: Wish) -> Picture:
        """Return the data of the current screen."""
        with self._lock:
            return self._picture(wish)

    def _picture(self, wish: Wish) -> Picture:
        followed = self._shown(wish)
        live = self._all if followed is None else self._each.get(followed.number, self._all)
        lines = live.lines()
        devices = live.devices(lines)
        device = next((one for one in devices if one.name == wish.device), devices[0] if devices else None)
        chosen = [line for line in lines if device is not None and line.device == device.name]
        since, until = standing.window(live, wish.minutes)
        shown, more = rows.make(lines if not wish.device else chosen, wish)
        peak_ago = None if device is None or not device.at else (until - device.at) / 1e6
        return Picture(
            title=standing.title(self._following),
            status=standing.status(self._following, live, judged=self._verdict is not None),
            state=standing.state(self._following),
            subject=standing.subject(self._following, followed),
            device="" if device is None else safe(device.name, 20),
            bytes=0 if device is None else device.bytes,
            peak=0 if device is None else device.peak,
            peak_ago=peak_ago,
            step=live.step,
            rate=live.rate if followed is not None else self._rate(),
            growth=live.growth(chosen),
            devices=tuple(one.name for one in devices),
            others=standing.others(devices, device),
            curve=() if device is None else tuple(live.curve(device.number, since, until, wish.parts)),
            seconds=(until - since) / 1e6,
            rows=shown,
            more=more,
            notes=self._told.notes(
                self._verdict, None if followed is None else followed.tail.process, self._in_peace()
            ),
            processes=tuple(self._process(one) for one in sorted(self._following.followed, key=standing.order)),
            shown=None if followed is None else followed.number,
            troubles=tuple(safe(text) for text in self._troubles()),
            wish=wish,
        )

    def _in_peace(self) -> set[int]:
        """Return the processes that closed their streams."""
        processes = (one.tail.process for one in self._following.followed)
        return {process.pid for process in processes if process is not None and process.complete}

    def _rate(self) -> float | None:
        """Steps a second of a process in the middle."""
        known = sorted(rate for live in self._each.values() if (rate := live.rate) is not None)
        return known[len(known) // 2] if known else None

    def _shown(self, wish: Wish) -> Followed | None:
        followed = self._following.followed
        if wish.process is not None and 0 <= wish.process < len(followed):
            return followed[wish.process]
        if wish.process is None and self._rank is not None:
            return next((one for one in followed if standing.rank(one) == self._rank), None)
        return None

    def has_rank(self, rank: int) -> bool:
        """Return whether a process of this rank has written."""
        return any(standing.rank(one) == rank for one in self._following.followed)

    def _process(self, one: Followed) -> Process:
        live = self._each.get(one.number)
        if live is None:
            return Process(one.number, standing.name(one), one.state)
        return Process(one.number, standing.name(one), one.state, live.nbytes, live.step)

    def _troubles(self) -> list[str]:
        followed = self._following.followed
        notes = [one.note for one in followed]
        if self._verdict is None or not self._following.over:  # after that it is among the limits
            notes += [f"{standing.name(one)}: {standing.stopped(one.failure)}" for one in followed if one.failure]
        return [text for text in (*self._limits, *notes) if text]
