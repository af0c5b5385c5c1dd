"""Which scope owns the code that is running now.

A region is the part of a scope that births need. The context variable follows tasks (a task starts in the scope that
created it) and threads start outside every scope. Generators share their consumer's context, so a region opened in a
generator counts only while that generator runs, unless the generator is a context manager or a fixture of pytest: then
its consumer is what is in the scope. Whatever a context still names, an ended region is passed over, so
nothing has to be put back in order when a generator is abandoned or closed from elsewhere.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator
from types import AsyncGeneratorType, FrameType
from typing import TYPE_CHECKING, Any, Protocol

from tenure import frameworks, heap, native, sites

if TYPE_CHECKING:
    from tenure.frameworks.base import Framework
    from tenure.model import Site

# Weak reference, code and instruction of the user's frame; a fourth item marks what was adopted, not born here.
Record = tuple[Any, ...]

LEAST = 48  # records that a region has before it forgets the dead; the native hook is given this


class Region:
    """One open scope as the birth hook sees it; `births` is None once it has ended.

    `check`, where set, returns the error to raise if the scope is over its cap, or None. Called with True, it returns
    a class that needs no arguments.
    """

    __slots__ = ("agen", "check", "forget", "frame", "holder", "limit", "moved", "name", "noted", "outer")

    def __init__(self, name: str, outer: Region | None) -> None:
        self.name = name
        self.outer = outer
        self.check: Callable[[bool], Any] | None = None
        self.forget: Callable[[], None] | None = None  # lets go of what else refers weakly to what is owned here
        self.noted: list[Record] | None = []  # None when the region has ended
        self.holder: Callable[[], object] | None = None  # None from it: an interrupt kept the region from being left
        self.limit = LEAST  # of records, before the dead are forgotten
        self.frame: FrameType | None = None
        self.agen: AsyncGeneratorType[Any, Any] | None = None
        # Records that went to another region. They are not taken out of `births`, which the hook changes at any time.
        self.moved: dict[int, Record] = {}

    @property
    def births(self) -> list[Record] | None:
        """The records of what was born or adopted here, the latest too."""
        if _hook is not None:
            _hook.settle()
        return self.noted

    def records(self) -> list[Record]:
        """The records of what this region owns and what still lives."""
        mine = (record for record in list(self.births or ()) if id(record) not in self.moved)
        return [record for record in mine if record[0]() is not None]

    def take(self, handles: list[Any]) -> list[Record]:
        """Give up these handles; returns their records."""
        wanted = set(map(id, handles))
        taken = [record for record in self.records() if id(record[0]()) in wanted]
        self.moved.update((id(record), record) for record in taken)
        return taken

    def hide(self, handle: Any) -> list[Record]:
        """Have no weak reference to this handle until its records, which are returned, are given back."""
        births, taken = self.births, []
        for index, record in enumerate(births or ()):
            if record[0]() is handle and births is not None:
                births[index] = (_DEAD, *record[1:])  # which a later look takes out
                if self.moved.pop(id(record), None) is None:
                    taken.append((handle, *record[1:]))
                if self.forget is not None:
                    self.forget()
        return taken

    def give(self, records: list[Record]) -> None:
        """Own these too."""
        births = self.births
        if births is not None:
            births.extend((record[0], *record[1:]) for record in records)  # copies: `moved` goes by identity


class Hook(Protocol):
    """What the native birth hook and its Python twin both do."""

    def setup(
        self,
        var: contextvars.ContextVar[Any],
        generators: dict[Any, Any],
        prefixes: tuple[str, ...],
        compilers: tuple[str, ...],
        kind: type,
        least: int,
        /,
    ) -> None:
        """Say where regions are found, which frames are not the user's, what regions are, and when to forget the dead."""

    def watch(self, kind: type, users: Callable[[Any], int] | None, passes_errors: bool, /) -> None:
        """Report births of this class; `users` and `passes_errors` are as `Framework` has them."""

    def resume(self) -> bool:
        """Report births of all classes that were watched before; False if these have new subclasses, or it cannot."""

    def unwatch(self) -> None:
        """Give every class its own allocator back."""

    def settle(self) -> None:
        """Note what was born of late with its region."""

    def close(self, region: Region, spare: bool, /) -> list[Record] | None:
        """The records of what was born in it, which notes no more from then on; None if it was closed before.

        The native hook leaves out what `survivors` does, if it is to `spare` it.
        """

    def current(self, without: Region | None, /) -> Region | None:
        """The region that owns the running code, `without` passed over."""

    def survivors(self, births: list[Record], /) -> tuple[dict[type, list[Any]], set[int]]:
        """What lives of these records, by class, in the order of births, each once; and the ids of the adopted.

        The native hook leaves out what only native code refers to, which `Framework.exempt` would spare.
        """


class _Gone:
    """What is there no more."""


_DEAD: Any = weakref.ref(_Gone())
_var: contextvars.ContextVar[Region | None] = contextvars.ContextVar("tenure_region", default=None)
_generators: dict[FrameType, list[Region]] = {}
_escaped: dict[int, Record] = {}  # by id of the handle: weak reference, code, instruction
_lock = threading.RLock()
_open: list[Region] = []
GENERATORS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_hook: Hook | None = None
_watched: tuple[Framework, ...] = ()  # those whose births are
# A recorder is told the name of the scope that this thread is in, and why what is ended now is ended; empty for none.
on_scope: list[Callable[[str], None]] = []
on_end: list[Callable[[str], None]] = []
on_excess: list[Callable[[str], None]] = []  # told when a scope's cap is exceeded, before that is raised


def hook() -> Hook:
    """The birth hook in use: native if it can be built, else the twin."""
    global _hook
    with _lock:
        if _hook is None:
            built: Any = native.load("tenure_births", "births.c")
            if built is None:
                from tenure.lifetime import births_twin as built
            built.setup(_var, _generators, sites.prefixes(), sites.compilers(), Region, LEAST)
            _hook = built
        return _hook


def current(without: Region | None = None) -> Region | None:
    """The region that owns the running code."""
    return (_hook or hook()).current(without) if _open else None


@contextlib.contextmanager
def hidden(handle: Any) -> Iterator[None]:
    """While frameworks look for weak references to a handle: they are to find the user's alone."""
    current()  # the hook in Python keeps a reference of its own until it is asked
    taken = [(region, region.hide(handle)) for region in opened()]
    escaped = _escaped.pop(id(handle), None)
    place = None if escaped is None or escaped[0]() is not handle else escaped[1:]
    del escaped
    try:
        yield
    finally:
        if place is not None:
            remember([(weakref.ref(handle), *place)])
        for region, records in taken:
            region.give([(weakref.ref(one), *rest) for one, *rest in records])


def opened() -> list[Region]:
    """Every open region, of every thread and task."""
    return list(_open)


def origin(handle: Any) -> tuple[Site | None, str | None]:
    """Where this handle was born and in which open scope, as far as scopes have seen it."""
    for region in opened():
        for ref, code, lasti, *_ in region.records():
            if ref() is handle:
                return sites.at(code, lasti), region.name
    escaped = _escaped.get(id(handle))
    if escaped is not None and escaped[0]() is handle:
        return sites.at(*escaped[1:3]), None
    return None, None


def remember(records: list[Record]) -> None:
    """Know where these were created, though no open scope owns them any more."""
    for ref, code, lasti, *_ in records:
        handle = ref()
        if handle is not None:
            _escaped[id(handle)] = (weakref.ref(handle, functools.partial(_forget, id(handle))), code, lasti)


def _forget(number: int, dead: Any) -> None:
    escaped = _escaped.get(number)
    if escaped is not None and escaped[0] is dead:
        del _escaped[number]


def enter(region: Region, frame: FrameType | None, *, births: bool = True) -> None:
    """Make `region` the current one for the code of `frame`: what is born there goes to it, unless there are no `births`."""
    watcher, awake = _hook or hook(), frameworks.awake()
    for other in opened():
        if other.holder is not None and other.holder() is None:
            leave(other)
    with _lock:
        if births and not (watcher.resume() and _watched is awake):
            _watch(watcher, awake)
        _open.append(region)
        if frame is not None and frame.f_code.co_flags & GENERATORS:
            region.frame = frame
            region.agen = _async_generator(frame)
            _generators.setdefault(frame, []).append(region)
    _var.set(region)
    if on_scope:
        _tell(on_scope, region.name)


def _watch(watcher: Hook, awake: tuple[Framework, ...]) -> None:
    """Have births seen of all classes that these frameworks have now."""
    global _watched
    try:
        for framework in awake:
            framework.prepare(hidden)
            for kind, users in framework.births():
                watcher.watch(kind, users, framework.passes_errors)
    except BaseException:
        _watched = ()
        if not _open:
            watcher.unwatch()
        raise
    _watched = awake


def _tell(calls: list[Callable[[str], None]], word: str) -> None:
    for call in calls:
        call(word)


@contextlib.contextmanager
def ending(cause: str) -> Iterator[None]:
    """While handles are ended for this cause."""
    _tell(on_end, cause)
    try:
        yield
    finally:
        _tell(on_end, "")


def leave(region: Region, *, spare: bool = False) -> list[Record]:
    """End the region and hand over the records of what it owns, perhaps without what only native code refers to.

    A second time there are none; what an interrupt kept the first from putting in order is put in order then.
    """
    watcher = _hook or hook()
    with _lock:
        births = watcher.close(region, spare) or []
        region.check = None
        frame, region.frame, region.agen = region.frame, None, None
        if frame is not None:
            regions = _generators.get(frame, [])
            if region in regions:
                regions.remove(region)
            if not regions:
                _generators.pop(frame, None)
        if region in _open:
            _open.remove(region)
        if not _open:
            watcher.unwatch()
    if _var.get() is region:
        _var.set(region.outer)
    if on_scope:
        now = current()
        _tell(on_scope, "" if now is None else now.name)
    moved, region.moved = region.moved, {}
    return [record for record in births if id(record) not in moved] if moved else births


def _async_generator(frame: FrameType) -> AsyncGeneratorType[Any, Any] | None:
    # Only the generator itself knows whether it stands at a `yield` or at an `await`; nothing leads from its frame
    # to it before Python 3.14, so it is looked for. A scope inside an async generator is rare enough for that.
    if not frame.f_code.co_flags & inspect.CO_ASYNC_GENERATOR:
        return None
    for thing in heap.objects():
        if type(thing) is AsyncGeneratorType and thing.ag_frame is frame:
            return thing
    return None


def joined(region: Region | None) -> contextvars.Token[Region | None]:
    """Put the running context into `region` (for code carried to another thread); undo with `part`."""
    return _var.set(region)


def part(token: contextvars.Token[Region | None]) -> None:
    """Undo `joined`."""
    _var.reset(token)
