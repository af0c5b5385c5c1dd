"""The birth hook in Python: the readable twin of `native/births.c`, and its fallback where nothing can be compiled.

It stands in the same slot, tp_alloc, through ctypes. A new handle is known to the garbage collector before the
framework has filled it in. So allocation and untracking happen inside one C call, during which no Python code and no
other thread can run; the handle is tracked again at the thread's next birth, or when a scope asks, in its thread or
after that has ended: it is surely complete then.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import gc
import itertools
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from tenure import console, frames, sites

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable
    from types import FrameType

    from tenure.lifetime.regions import Region

_WORDS_BEFORE_TP_ALLOC = 38  # fields of PyTypeObject, the same from CPython 3.8 to 3.13
_WORD = ctypes.sizeof(ctypes.c_void_p)
_ALLOC = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_ssize_t)
_untrack = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("PyObject_GC_UnTrack", ctypes.pythonapi))
_track = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("PyObject_GC_Track", ctypes.pythonapi))

_originals: dict[type, tuple[int, Any]] = {}
_pending: dict[int, Any] = {}  # by thread: a weak reference to the handle that is not tracked yet
_var: Any = None
_least = 0
_generators: dict[Any, list[Region]] = {}


def setup(
    var: contextvars.ContextVar[Any],
    generators: dict[Any, list[Region]],
    prefixes: tuple[str, ...],
    compilers: tuple[str, ...],
    kind: type,
    least: int,
    /,
) -> None:
    """Say where regions are found; whose a frame is, this twin asks `sites` itself."""
    global _var, _generators, _least
    _var, _generators, _least = var, generators, least


def watch(kind: type, users: Callable[[Any], int] | None, passes_errors: bool, /) -> None:
    """Report births of this class. A callback cannot raise, so caps are looked at only when their scope is left."""
    if _birth is None:
        _report_blindness()
        return
    slot = _slot(kind)
    if kind not in _originals:
        _originals[kind] = (slot.value or 0, _ALLOC(slot.value or 0))
    slot.value = ctypes.cast(_birth, ctypes.c_void_p).value


@functools.cache  # once
def _report_blindness() -> None:
    console.say("scopes release nothing in this process: there was no memory for the callback that sees new tensors")


def resume() -> bool:
    """Whether births of all classes are reported again, and there are no new ones: this twin wants to be told each."""
    return False


def unwatch() -> None:
    """Give every class its own allocator back."""
    for kind, (address, _) in _originals.items():
        _slot(kind).value = address
    _settle()


def settle() -> None:
    """Have the garbage collector know what was born; all is noted at once."""
    _settle()
    _settle_ended()


def close(region: Region, spare: bool, /) -> list[Any] | None:
    """The records of what was born in it; it notes no more."""
    settle()
    births, region.noted = region.noted, None
    return births


def current(without: Region | None, /) -> Region | None:
    """The region that owns the running code."""
    _settle()
    region: Region | None = _var.get()
    while region is not None and (region is without or region.noted is None or _suspended(region)):
        region = region.outer
    if _generators:
        running = _running(without)
        outer = region
        while outer is not None and outer is not running:
            outer = outer.outer
        if running is not None and outer is not running:
            return running
    return region


def survivors(births: list[Any], /) -> tuple[dict[type, list[Any]], set[int]]:
    """What lives of these records, by class, in the order of births, each handle once; and the ids of the adopted."""
    groups: dict[type, list[Any]] = {}
    for handle in {id(handle): handle for handle in (record[0]() for record in births) if handle is not None}.values():
        groups.setdefault(type(handle), []).append(handle)
    return groups, {id(record[0]()) for record in births if len(record) > 3}


def _suspended(region: Region) -> bool:
    if region.agen is not None:
        return not region.agen.ag_running
    return region.frame is not None and region.frame.f_back is None


def _running(without: Region | None) -> Region | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        for region in reversed(_generators.get(frame, ())):
            if region is not without and region.noted is not None:
                return region
        frame = frame.f_back
    return None


def _slot(kind: type) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(kind) + _WORDS_BEFORE_TP_ALLOC * _WORD)


def _settle() -> None:
    """Track again what this thread's last birth left untracked."""
    _track_born(threading.get_ident())


def _settle_ended() -> None:
    """The same for threads that have ended."""
    for ident in _pending.keys() - frames.current().keys():
        _track_born(ident)


def _track_born(ident: int) -> None:
    ref = _pending.pop(ident, None)
    handle = ref() if ref is not None else None
    if handle is not None and not gc.is_tracked(handle):
        _track(handle)


def _allocate(kind: type, items: int) -> Any:
    original = _originals[kind][1] if kind in _originals else _generic
    first, second = itertools.tee(map(original, (kind,), (items,)))
    collecting = gc.isenabled()
    gc.disable()  # before Python 3.12 an allocation inside the next call could start a collection
    try:
        ((handle, _),) = list(zip(first, map(_untrack, second), strict=False))
    finally:
        if collecting:
            gc.enable()
    return handle


def _alloc(kind: type, items: int) -> Any:
    handle = None
    try:
        region = current(None)
        handle = _allocate(kind, items)
        ref = weakref.ref(handle)
        _pending[threading.get_ident()] = ref
        if region is not None and region.noted is not None:
            _record(region, ref)
    except KeyboardInterrupt:
        # Must not leave a callback: the framework would see an allocation fail without a reason.
        _thread.interrupt_main()
        if handle is None:
            handle = _allocate(kind, items)
    return handle


def _record(region: Region, ref: Any) -> None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(sites.compilers()):
            return
        if sites.is_user(frame.f_code.co_filename):
            break
        frame = frame.f_back
    code, lasti = (frame.f_code, frame.f_lasti) if frame is not None else (None, -1)
    births = region.noted
    if births is None:
        return
    births.append((ref, code, lasti))
    if len(births) > region.limit:
        births[:] = [entry for entry in births if entry[0]() is not None]
        region.limit = max(_least, 2 * len(births))


_generic = _ALLOC(("PyType_GenericAlloc", ctypes.pythonapi))
_birth: Any = None
with contextlib.suppress(MemoryError):  # a callback takes a page of its own; scopes end nothing without it
    _birth = _ALLOC(_alloc)
