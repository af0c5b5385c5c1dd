"""The looks: when they come, what is looked at, and for whose holders it is worth to search."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable

from tenure import frameworks, stacks
from tenure.errors import described
from tenure.frameworks.base import Crowd, Growing, Source
from tenure.lifetime import regions
from tenure.trace import checks, donations, graphs, suspects
from tenure.trace.checks import Checks
from tenure.trace.recorder import Recorder
from tenure.trace.suspects import Look, Suspect
from tenure.watch import autopsy, holding
from tenure.watch.donating import Donations

_FIRST = 24  # events before the first look
_LEAST_APART = 8  # events between two
_SPACING = 0.28  # of all events so far, to the next look
_LEAST = 5  # of one origin, below which nobody looks closer
_RISES = 3  # looks in a row with more than before, after which holders are searched for
_STALE = 4  # looks without a step, after which the last one was the last
_ENOUGH = 7  # of one origin, below which holders are not searched for
_AT_ONCE = 3  # searches in one look
_FREE = 2.0  # seconds that searches may take in any case
_FREE_IN_CHILD = 0.0  # a worker inherits a large heap, and may live for less than a second
_SEARCH = 0.1  # seconds that one search may take
_SHARE = 0.02  # of the run's time that they may take beyond
_AGAIN = 3  # times as many as at the last search make it worth another
_GAPS = 10  # of the longest, kept
_GAP = 0.1  # of all events: checks that are further apart were missed
_AUTOPSIES = 5  # in one process: a program may go on and run out again and again


class Watch:
    """The watch over one process."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._growing: dict[str, Growing] = {}
        self._begun = time.monotonic()
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._known: dict[tuple[str, ...], _Known] = {}
        self._events = self._next = self._looks = self._step = self._at_step = 0
        self._autopsies = self._checks = self._late = 0
        self._gaps: list[int] = []
        self._unstepped = False
        self._graphs: list[str] = []
        self._donations = Donations()
        self._spent = 0.0
        self._free = _FREE
        self._busy = False

    def start(self) -> None:
        """Look from now on."""
        self._recorder.on_watch.append(self._enlist)
        self._recorder.before_stop.append(self.stop)
        regions.on_excess.append(self._out_of_memory)
        self._wait()

    def _enlist(self, name: str, source: Source) -> None:
        self._growing[name] = growing = frameworks.grower(name, source)
        growing.on_failure(self._out_of_memory)
        tell = getattr(growing, "on_refused", None)  # only JAX has donations
        if tell is not None:
            tell(lambda crowd, born: self._safely(lambda: self._refused(crowd, born, growing)))

    def _refused(self, crowd: Crowd, born: str, growing: Growing) -> None:
        if self._pid == os.getpid():
            self._donations.refused(crowd, born, growing)

    def _out_of_memory(self, why: str, wanted: int | None = None) -> None:
        """Note what is alive, before the error reaches the program, which may make room or end."""
        if self._busy or self._recorder.failure or self._autopsies >= _AUTOPSIES:
            return
        self._busy = True
        self._autopsies += 1
        try:
            autopsy.take(self._recorder, list(self._growing.values()), why, wanted)
        except Exception as error:  # noqa: BLE001
            self._recorder.trouble(f"checking live objects: {described(error)}")
        finally:
            self._busy = False

    def _wait(self) -> None:
        self._next = max(_LEAST_APART, int(self._events * _SPACING)) if self._events else _FIRST
        stacks.after(self._next, self._called)

    def _called(self) -> None:
        """Between two instructions of the user's program: whatever happens here must not reach it."""
        if self._pid != os.getpid():
            self._forget()
            self._begun, self._free = time.monotonic(), _FREE_IN_CHILD
        self._events += self._next
        self._checks += 1
        self._note_gap()
        self._safely(self._look)
        self._wait()

    def _note_gap(self) -> None:
        """Events since this check was due: the main thread may have been busy in one call, such as a backward pass."""
        late = stacks.overdue()
        self._late += late
        if late > _FIRST:
            self._gaps = sorted((*self._gaps, late))[-_GAPS:]

    def _safely(self, look: Callable[[], None]) -> None:
        if self._busy:
            return
        self._busy = True
        collecting = gc.isenabled()
        gc.disable()  # the user's cycles end when the user's program would have them end
        try:
            look()
        except Exception as error:  # noqa: BLE001
            self._recorder.trouble(f"looking for leaks: {described(error)}")
        finally:
            self._busy = False
            if collecting:
                gc.enable()

    def stop(self) -> None:
        """Look once more, and tell what was seen."""
        if self._pid == os.getpid():
            self._note_gap()
        stacks.after(0, None)
        if self._out_of_memory in regions.on_excess:
            regions.on_excess.remove(self._out_of_memory)
        if self._pid != os.getpid():
            return
        self._free = math.inf  # the last chance to find out what keeps alive what is left
        self._safely(lambda: self._look(at_end=True))
        self._safely(self._expect_steps)
        self._safely(self._see_graphs)
        for growing in self._growing.values():
            growing.stop()
        if not self._recorder.begun:  # the folder is another's
            return
        found = [
            known.suspect for known in self._known.values() if known.searched or known.suspect.what in _HELD_BY_NONE
        ]
        try:
            suspects.tell(self._recorder.folder, found)
            donations.tell(self._recorder.folder, self._donations.explained())
            checks.write(self._recorder.folder, self._seen(len(found)))
            if self._graphs:
                graphs.write(self._recorder.folder, self._graphs)
        except OSError as error:
            self._recorder.trouble(f"the results of leak checks could not be written: {error}")

    def _expect_steps(self) -> None:
        self._unstepped = not self._step and any(growing.expects_steps() for growing in self._growing.values())

    def _see_graphs(self) -> None:
        for growing in self._growing.values():
            seen = getattr(growing, "graphs", None)  # only torch records graphs while it computes
            self._graphs += seen() if seen is not None else []

    def _seen(self, candidates: int) -> Checks:
        """How well this process was checked, and how many leak candidates it wrote."""
        events = self._events + self._late
        missed = sum(gap for gap in self._gaps if gap > _GAP * events)
        return Checks(self._pid, self._checks, events, missed, self._unstepped, candidates)

    def _look(self, *, at_end: bool = False) -> None:
        self._looks += 1
        if self._recorder.step != self._step:
            self._step, self._at_step = self._recorder.step, self._looks
        risen: list[tuple[_Known, Crowd, Growing]] = []
        seen = set()
        for growing in list(self._growing.values()):
            for crowd in growing.crowds(_LEAST):
                key = (crowd.framework, crowd.what, crowd.stack, crowd.name if crowd.what == "traces" else "")
                known = self._known.get(key)
                if known is None:
                    known = self._known[key] = _Known(crowd)
                seen.add(key)
                known.see(Look(self._events, self._recorder.step, crowd.count, crowd.nbytes, crowd.steps))
                if known.is_worth_a_search and self._is_no_step_at_work(growing):
                    risen.append((known, crowd, growing))
        for other, known in self._known.items():
            if other not in seen:
                known.see(Look(self._events, self._recorder.step, 0, 0, 0))
        risen.sort(key=lambda one: (one[0].searched, -one[1].nbytes))
        for known, crowd, growing in risen[:_AT_ONCE]:
            if self._spent >= self._free + _SHARE * (time.monotonic() - self._begun) - _SEARCH:
                break
            before = time.thread_time()
            known.search(crowd, growing, at_end=at_end)
            suspects.tell(self._recorder.folder, [known.suspect], suspects.GROWING)
            self._spent += time.thread_time() - before
        risen.clear()

    def _is_no_step_at_work(self, growing: Growing) -> bool:
        """Whether what rises is not just one step's work: steps go by, none will come, or none came for long."""
        if not self._step:
            return not growing.expects_steps()
        return self._step >= _RISES or self._looks >= self._at_step + _STALE


_HELD_BY_NONE = ("traces", "operations")  # the framework itself keeps them


class _Known:
    """Things of one origin, as they were seen so far."""

    def __init__(self, crowd: Crowd) -> None:
        self.suspect = Suspect(crowd.framework, crowd.what, crowd.stack, crowd.name)
        self.searched = 0  # how many there were when their holders were last searched for
        self._rises = 0
        self._most = 0
        self._first = 0  # the step in which it began to rise

    def see(self, look: Look) -> None:
        """One more look."""
        before = self.suspect.looks[-1].count if self.suspect.looks else 0
        self._most = max(self._most, look.count)
        if look.count < self._most / 2:  # a small fall is that of temporary buffers from the same line
            self._rises = 0
        elif look.count > before:
            self._first = self._first if self._rises else look.step
            self._rises += 1
        self.suspect.looks.append(look)

    @property
    def is_worth_a_search(self) -> bool:
        """Whether it has risen, and is not known well enough."""
        if self.suspect.what in _HELD_BY_NONE:
            return False
        last = self.suspect.looks[-1]
        # Where steps went by meanwhile, what is kept is of several of them: else it is one step's work.
        kept = last.steps >= _RISES or last.step < self._first + _RISES or not last.steps
        return self._rises >= _RISES and kept and last.count >= max(_ENOUGH, _AGAIN * self.searched)

    def search(self, crowd: Crowd, growing: Growing, *, at_end: bool) -> None:
        """Find out who holds one of them: not one of the newest, which may still be in use.

        At the end the variables of functions are gone. What only they held may be in a cycle: nobody waits for it.
        """
        self.searched = crowd.count
        self.suspect.name = crowd.name
        facts, found = holding.search(crowd, growing)
        if at_end:
            found = [holder for holder in found if holder.kind != "cycle"]
        self.suspect.facts = facts or self.suspect.facts
        self.suspect.holders = found or self.suspect.holders
