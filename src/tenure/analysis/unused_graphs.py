"""Forward passes whose autograd graph no backward pass uses, and the peak without these graphs.

The recorder notes which operations added nodes to a graph. A graph keeps what its operations saved until its result is freed.
So these buffers outlive the call that created them, although nothing uses them again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path

from tenure.analysis.amounts import frames
from tenure.analysis.drag import highest_peaks, past_lives
from tenure.analysis.peak import device_of
from tenure.analysis.relief import Life, Played, Stack, stretches
from tenure.analysis.scan import NEVER, Scan, Source
from tenure.model import Site
from tenure.trace import graphs

_SHARE, _LEAST = 0.1, 1 << 16  # of the peak, and in bytes: less is not worth a change
_KEPT = ("parameter", "gradient", "optimizer state")
_PASSES = 2  # of one statement: a single one may have been cut short before its backward pass


@dataclass(frozen=True, slots=True)
class UnusedGraph:
    """A statement that runs forward passes with gradients enabled, none of which was differentiated.

    Attributes:
        site: The statement.
        born: The line that allocated the largest of the buffers that its graphs keep.
        bytes: The bytes that these graphs kept at the peak.
        count: The number of their buffers.
        peak: The peak of the process in bytes.
        left: About what the peak is without these graphs.
        process: The number of the process.
    """

    site: Site
    born: Site
    bytes: int
    count: int
    peak: int
    left: int
    process: int

    @property
    def saved(self) -> int:
        """The bytes by which the peak drops."""
        return self.peak - self.left


def unused_graphs(scan: Scan, folder: Path, device: str | None = None) -> tuple[UnusedGraph, ...]:
    """Return the forward passes that make the peak of a device higher than it is under `no_grad`, the largest first."""
    number = device_of(scan, device)
    if number is None or not scan.tells_uses:
        return ()
    found: dict[Site, UnusedGraph] = {}
    for source in highest_peaks(scan, number, _LEAST):
        recorded = graphs.read(folder, source.numbers.stream.process.pid)
        for one in _of_process(scan, source, number, recorded) if recorded else ():
            if one.site not in found or one.saved > found[one.site].saved:
                found[one.site] = one
    return tuple(sorted(found.values(), key=lambda one: (-one.saved, one.site.file, one.site.line)))


def _of_process(scan: Scan, source: Source, device: int, recorded: frozenset[str]) -> Iterable[UnusedGraph]:
    most, at, _ = scan.peaks(source.at)[device]
    kinds = scan.words("kind")
    kept, differentiated = ({kinds.index(kind) for kind in some if kind in kinds} for some in (_KEPT, ("activation",)))
    floor = max(_LEAST, round(most * _SHARE))
    late = [
        life
        for life in past_lives(scan, source, device, at)
        if life.stack in recorded and life.kind not in kept | differentiated
    ]
    if sum(life.bytes for life in late) < floor:
        return
    read = _Stacks()
    played = stretches(scan, source, device, at)
    trained = {
        read(life.stack)
        for stretch in played
        for life in stretch.lives.values()
        if life.kind in differentiated and life.stack is not None
    }
    held: dict[Stack, list[Life]] = {}
    for life in late:
        statement = read.statement(life, trained)
        if statement:
            held.setdefault(statement, []).append(life)
    for statement, lives in held.items():
        if sum(life.bytes for life in lives) < floor:
            continue
        largest = max(lives, key=lambda life: life.bytes)
        all_of_it = [
            (stretch, [life for life in stretch.lives.values() if read.is_inside(life, statement)])
            for stretch in played
        ]
        if sum(life.stack == largest.stack for _, some in all_of_it for life in some) < _PASSES:
            continue

        def is_of_graph(life: Life, statement: Stack = statement) -> bool:
            return life.kind not in kept and life.stack in recorded and read.outlives_its_call(life, statement)

        left = max(_without(stretch, filter(is_of_graph, some)) for stretch, some in all_of_it)
        if most - left >= floor:
            bytes_ = sum(life.bytes for life in lives)
            process = source.numbers.stream.process.number
            yield UnusedGraph(statement[0], read(largest.stack)[0], bytes_, len(lives), most, left, process)


def _without(stretch: Played, lives: Iterable[Life]) -> int:
    """Return the highest level with these lives ended when the operation after their last one is over."""
    starts = sorted({life.last_use for life in stretch.lives.values()})
    moves: list[tuple[int, int]] = []
    for life in lives:
        place = bisect_right(starts, max(life.last_use, life.born)) + 1
        if place < len(starts) and starts[place] < life.ended:
            moves.append((starts[place], -life.bytes))
            if life.ended < NEVER:
                moves.append((life.ended, life.bytes))
    return stretch.highest(moves)


class _Stacks:
    """The stacks of lives as sites, innermost first."""

    def __init__(self) -> None:
        self._read: dict[str | None, Stack] = {}

    def __call__(self, text: str | None) -> Stack:
        if text not in self._read:
            self._read[text] = tuple(frames(text))
        return self._read[text]

    def statement(self, life: Life, trained: Set[Stack]) -> Stack:
        """Return the statement, with its callers, that created and used the buffer, and was over before its end; () if none.

        It belongs to the innermost call that was still running at the end: variables of the calls inside are gone by then. At
        exit no call is left; then it is the outermost statement in which nothing was differentiated.
        """
        born = self(life.stack)
        lengths = [self._common(born, self(life.end_stack))] if life.ended < NEVER else range(1, len(born) + 1)
        for length in lengths:
            found = born[len(born) - length :]
            if not found or not self.outlives_its_call(life, found):
                return ()
            if not any(stack[-length:] == found for stack in trained):
                return found
        return ()

    @staticmethod
    def _common(born: Stack, ended: Stack) -> int:
        """The number of calls, from the outermost, that were the same; of the innermost one the line may differ."""
        common = 0
        while common < min(len(born), len(ended)) and born[-common - 1] == ended[-common - 1]:
            common += 1
        if common < min(len(born), len(ended)) and _is_one_call(born[-common - 1], ended[-common - 1]):
            common += 1
        return common

    def is_inside(self, life: Life, statement: Stack) -> bool:
        """Return whether the buffer was created in this statement."""
        return life.stack is not None and self(life.stack)[-len(statement) :] == statement

    def outlives_its_call(self, life: Life, statement: Stack) -> bool:
        """Return whether the buffer was created and last used in this statement, and was freed after it."""
        if not self.is_inside(life, statement) or not life.last_use:
            return False
        used = self(life.last_stack or life.stack)
        ended = self(life.end_stack) if life.ended < NEVER else ()
        inside = len(ended) > len(statement) and ended[-len(statement) :] == statement
        return used[-len(statement) :] == statement and not inside


def _is_one_call(one: Site, other: Site) -> bool:
    return (one.file, one.function) == (other.file, other.function)
