"""Reading the variables of frames without lengthening a life, and where a variable got its value."""

from __future__ import annotations

import ctypes
import dis
import sys
import threading
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tenure import frames
from tenure.analysis.holders import plain, snapshots
from tenure.model import Site

_PACKAGE = f"{Path(__file__).parents[2]}/"


def variables(frame: FrameType, *, mine: bool = True) -> list[tuple[str, object]]:
    """The variables of a frame, cells looked into; `mine` unless another thread may be running it."""
    if not is_function(frame.f_code):
        space: object = frame.f_locals
        return namespace(space) if plain.is_dict(space) else []
    if sys.version_info >= (3, 13):
        return list(frame.f_locals.items())
    if sys.version_info >= (3, 12):
        return _one_by_one(frame)
    return snapshots.read(frame, mine=mine)


def namespace(space: plain.Entries) -> list[tuple[str, object]]:
    """The names and values of a module's, class's or instance's dict."""
    return [(key, value) for key, value in plain.entries(space) if isinstance(key, str)]


def _one_by_one(frame: FrameType) -> list[tuple[str, object]]:
    """Python 3.12 has a call that reads one variable and makes no snapshot."""
    read = ctypes.pythonapi.PyFrame_GetVar
    read.restype = ctypes.py_object
    read.argtypes = (ctypes.py_object, ctypes.py_object)
    code = frame.f_code
    found: list[tuple[str, object]] = []
    for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
        try:
            found.append((name, read(frame, name)))
        except NameError:  # not bound at the moment
            continue
    return found


def is_function(code: CodeType) -> bool:
    """Whether this code has variables of its own, unlike a module's or a class body's."""
    return bool(code.co_flags & CO_OPTIMIZED)


def is_own(code: CodeType) -> bool:
    """Whether this code is tenure's."""
    return code.co_filename.startswith(_PACKAGE)


def running() -> list[tuple[FrameType, str, bool]]:
    """Every frame on every thread's stack, innermost first: the frame, the thread's name, whether it is this thread.

    The main thread's name is empty: nobody needs to be told that. The caller is among the frames, so it must clear the
    list: a frame with a variable that leads to itself stays until the next collection, and so does all it holds.
    """
    main, mine = threading.main_thread().ident, threading.get_ident()
    names: dict[int, str] = {}
    for thread in threading.enumerate():
        names[thread.ident or 0] = str(thread.__dict__.get("_name"))
    tops = frames.current()
    tops[mine] = sys._getframe(1)
    found: list[tuple[FrameType, str, bool]] = []
    for ident in tops:
        name = "" if ident == main else names.get(ident, str(ident))
        found.extend((frame, name, ident == mine) for frame in _stack(tops[ident]))
    tops.clear()
    return found


def _stack(top: FrameType) -> list[FrameType]:
    found = [top]
    while (outer := found[-1].f_back) is not None:
        found.append(outer)
    return found


def binding(code: CodeType, name: str, line: int) -> Site:
    """Where a variable of this code got its value: the last assignment at or before `line`, else the last of all.

    The lines come from the code itself, so that they are right even where the file has changed since.
    """
    lines = sorted({number for number, bound in _bindings(code) if bound == name})
    before = [number for number in lines if number <= line]
    if lines:
        return Site(code.co_filename, (before or lines)[-1], code.co_qualname)
    is_argument = name in code.co_varnames or name in code.co_freevars
    return Site(code.co_filename, code.co_firstlineno if is_argument else line, code.co_qualname)


def _bindings(code: CodeType) -> Iterator[tuple[int, str]]:
    for step in dis.get_instructions(code):
        number = step.positions.lineno if step.positions else None
        if number is None or not step.opname.startswith("STORE_"):
            continue
        bound: Any = step.argval
        yield from ((number, str(name)) for name in (bound if plain.is_tuple(bound) else (bound,)))
