"""What the peak would have been, had some buffers ended when they were needed no more: played again from the trace.

A short trace is played whole. Of a long one, the rows around its peak and around the highest moments of some other parts
are: what a program does in each step, it does in all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.analysis.amounts import frames
from tenure.analysis.rows import rows_of, word
from tenure.analysis.scan import NEVER, Scan, Source
from tenure.model import Site

ALL = 200_000  # rows of a trace that is played whole
_AROUND = 15_000  # rows on each side of the peak
_OTHERS, _ASIDE = 4, 5_000
_WORTH = 2000  # what is smaller than this part of the peak is nobody's advice

Stack = tuple[Site, ...]
# What can be done about a life with these stacks of birth, last use and end; None for the end of what never ended.
Judge = Callable[[Stack, Stack, Stack | None], Any]


@dataclass
class Life:
    """A buffer as far as it matters here."""

    bytes: int
    born: int
    last_use: int = 0
    ended: int = NEVER
    stack: str | None = None
    last_stack: str | None = None
    end_stack: str | None = None
    kind: int = -1


@dataclass
class Played:
    """A stretch of one process: the lives in it, and its births and ends as (time, bytes, stack), in order."""

    level: int
    lives: dict[int, Life]
    changes: list[tuple[int, int, str | None]]
    rows: int

    def highest(self, moves: Iterable[tuple[int, int]]) -> int:
        """Return the highest level with these changes besides, as (time, bytes)."""
        level, most, last = self.level, 0, None
        for time, size in sorted([*((time, size) for time, size, _ in self.changes), *moves]):
            if last is not None and time != last:
                most = max(most, level)
            level += size
            last = time
        return max(most, level)


@dataclass
class Relief:
    """What one way to end buffers earlier would have done: the peak that is left, and the lives it is about."""

    lives: list[Life] = field(default_factory=list)
    peak: int = 0


def stretches(scan: Scan, source: Source, device: int, at: int) -> list[Played]:
    """What is played of a process."""
    total = source.numbers.stream.process.events
    batches = len(source.numbers)
    if total <= ALL:
        return [play(scan, source, device, 0, batches)]
    per = max(1, total // batches)
    moments = [(at, _AROUND // per + 1)]
    curve = scan.curve(device)
    length = len(curve.index)
    for part in range(_OTHERS):
        low, high = part * length // _OTHERS, (part + 1) * length // _OTHERS
        top = max(range(low, high), key=curve.most.__getitem__, default=None)
        if top is not None:
            moments.append((curve.index[top] << curve.shift, _ASIDE // per + 1))
    found, done = [], set()
    for moment, width in moments:
        middle = bisect_right(source.latest, moment)
        first, last = max(0, middle - width), min(batches, middle + width)
        if (first, last) not in done:
            done.add((first, last))
            found.append(play(scan, source, device, first, last))
    return found


def play(scan: Scan, source: Source, device: int, first: int, last: int) -> Played:
    """The lives and changes in these batches of a process."""
    worth = max(scan.peaks(source.at)[device][0] // _WORTH, 1)
    lives: dict[int, Life] = {}
    begin = source.latest[first - 1] if first else None
    if begin is not None:
        lives = _living(scan, source, device, begin, worth)
    played = Played(sum(life.bytes for life in lives.values()), lives, [], 0)
    columns = ("time", "event", "buffer", "bytes", "device", "stack", "last_use", "last_stack", "kind")
    names = scan.words("device")
    for chunk in source.numbers.chunks(columns, range(first, last)):
        for number, batch in chunk:
            _take(scan, source, played, number, batch, names[device], begin or 0)
            played.rows += batch.num_rows
    played.changes.sort(key=lambda change: change[0])
    if last < len(source.numbers):
        later = _living(scan, source, device, source.latest[last - 1], worth)
        for buffer, life in later.items():
            if buffer in lives and lives[buffer].ended == NEVER:
                life.stack = lives[buffer].stack
                lives[buffer] = life
    return played


def _living(scan: Scan, source: Source, device: int, at: int, worth: int) -> dict[int, Life]:
    """Who is alive at a moment, with what became of them; with stacks where they are large enough to matter."""
    rows = [row for row in scan.alive(at, [source]).to_pylist() if row["device"] == device and row["bytes"]]
    large = [row for row in rows if row["bytes"] >= worth]
    births = rows_of(scan, large, ("stack",))
    ends = rows_of(scan, large, ("stack", "last_stack"), end=True)
    found = {}
    for row in rows:
        key = (source.at, row["buffer"])
        end = ends.get(key, {})
        found[row["buffer"]] = Life(
            row["bytes"], row["born"], row["last_use"], row["ended"], births.get(key, {}).get("stack"),
            end.get("last_stack"), end.get("stack") if row["ended"] < NEVER else None, row["kind"],
        )  # fmt: skip
    return found


def _take(scan: Scan, source: Source, played: Played, number: int, batch: Any, device: str, begin: int) -> None:
    words = {name: _words(source, name, number) for name in ("event", "device", "stack", "last_stack", "kind")}
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name not in ("time", "last_use")}
    for name in ("time", "last_use"):
        columns[name] = batch.column(name).cast("int64").to_pylist()
    kinds = scan.words("kind")
    for row in range(batch.num_rows):
        buffer = columns["buffer"][row]
        event = words["event"](columns["event"][row])
        if buffer is None or event not in ("birth", "use", "end"):
            continue
        time = columns["time"][row]
        if event == "birth":
            size = columns["bytes"][row]
            if not size or words["device"](columns["device"][row]) != device or time <= begin:
                continue
            stack = words["stack"](columns["stack"][row])
            played.lives[buffer] = Life(size, time, stack=stack)
            played.changes.append((time, size, stack))
        life = played.lives.get(buffer)
        if life is None:
            continue
        kind = words["kind"](columns["kind"][row])
        life.kind = life.kind if kind is None else kinds.index(kind)
        if event != "birth" and columns["last_use"][row] is not None:
            life.last_use = max(life.last_use, columns["last_use"][row])
            life.last_stack = words["last_stack"](columns["last_stack"][row])
        if event == "end" and time > begin:
            life.ended = time
            life.end_stack = words["stack"](columns["stack"][row])
            played.changes.append((time, -life.bytes, life.end_stack))


def _words(source: Source, column: str, batch: int) -> Callable[[int | None], str | None]:
    texts = source.numbers.words(column)
    known: dict[int | None, str | None] = {}

    def look(number: int | None) -> str | None:
        if number not in known:
            known[number] = word(texts, batch, number)
        return known[number]

    return look


def _key(life: Life) -> tuple[str | None, ...]:
    return (life.stack, life.last_stack or life.stack, life.end_stack if life.ended < NEVER else "alive")


class Player:
    """Plays stretches again for each thing that could be done."""

    def __init__(self, judge: Judge, kinds: Sequence[str], spared: Iterable[str]) -> None:
        self._judge = judge
        self._spared = {kinds.index(kind) for kind in spared}
        self._judged: dict[tuple[str | None, ...], Any] = {}
        self._stacks: dict[str | None, Stack] = {}
        self._elsewhere: set[tuple[str | None, ...]] = set()

    def stack(self, text: str | None) -> Stack:
        """A stack as sites."""
        if text not in self._stacks:
            self._stacks[text] = tuple(frames(text))
        return self._stacks[text]

    def judged(self, life: Life) -> Any:
        """What can be done about a life; None for nothing."""
        if life.kind in self._spared or life.stack is None:
            return None
        key = _key(life)
        if key not in self._judged:
            end = self.stack(life.end_stack) if life.ended < NEVER else None
            self._judged[key] = self._judge(self.stack(key[0]), self.stack(key[1]), end)
        return self._judged[key]

    def reliefs(self, played: Sequence[Played], wanted: Iterable[Any]) -> Mapping[Any, Relief]:
        """For each of these, the highest that is left of all stretches."""
        found = {one: Relief() for one in wanted}
        for stretch in played:
            mine: dict[Any, list[Life]] = {one: [] for one in found}
            for life in stretch.lives.values():
                one = self.judged(life)
                if one in mine:
                    mine[one].append(life)
            for one, lives in mine.items():
                self._elsewhere |= self._outliving(stretch, one, lives)
        for stretch in played:
            mine = {one: [] for one in found}
            for life in stretch.lives.values():
                one = self.judged(life)
                if one in mine and not self.is_held_elsewhere(life):
                    mine[one].append(life)
            for one, lives in mine.items():
                found[one].lives.extend(lives)
                found[one].peak = max(found[one].peak, self._left(stretch, one, lives))
        return found

    def is_held_elsewhere(self, life: Life) -> bool:
        """Return whether lives of this kind outlived the next assignment to their name, as far as the stretches show."""
        return _key(life) in self._elsewhere

    def _outliving(self, stretch: Played, one: Any, lives: Sequence[Life]) -> set[tuple[str | None, ...]]:
        """Return the kinds of lives of which one was still alive after its name was assigned again.

        Something else keeps those, such as a list that a hook fills, and a `del` of the name frees none of them.
        """
        found: set[tuple[str | None, ...]] = set()
        runs: dict[Site, tuple[list[int], list[int]]] = {}
        for life in lives:
            at = one.bound(self.stack(life.stack))
            if at is None:
                continue
            if at not in runs:
                runs[at] = self._runs(stretch, at, self.stack(life.stack)[-1])
            begun, over = runs[at]
            place = bisect_right(begun, life.born)
            if place < len(over) and life.ended > over[place]:
                found.add(_key(life))
        return found

    def _runs(self, stretch: Played, at: Site, outermost: Site) -> tuple[list[int], list[int]]:
        """Return when the runs of a statement began, and when other code of its thread allocated or freed after each."""
        begun: list[int] = []
        over: list[int] = []
        inside: dict[str | None, bool | None] = {None: None}
        for time, size, text in stretch.changes:
            if text not in inside:
                stack = self.stack(text)
                own = bool(stack) and (stack[-1].file, stack[-1].function) == (outermost.file, outermost.function)
                inside[text] = at in stack if own else None
            if inside[text] and size > 0 and len(begun) == len(over):
                begun.append(time)
            elif inside[text] is False and len(begun) > len(over):
                over.append(time)
        return begun, over

    def _left(self, stretch: Played, one: Any, lives: Sequence[Life]) -> int:
        """The highest level with these lives ended as soon as their statement was over."""
        inside: dict[str | None, bool] = {}
        for _, _, stack in stretch.changes:
            if stack not in inside:
                inside[stack] = stack is None or one.inside(self.stack(stack))
        outside = [time for time, _, stack in stretch.changes if not inside[stack]]
        moves: list[tuple[int, int]] = []
        for life in lives:
            place = bisect_right(outside, max(life.last_use, life.born))
            if place < len(outside) and outside[place] < life.ended:
                # The next thing that happened happens with these bytes gone, so they go a moment earlier.
                moves.append((outside[place] - 1, -life.bytes))
                moves.append((life.ended, life.bytes))
        return stretch.highest(moves)
