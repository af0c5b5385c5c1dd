"""The variables of a function's frame on Python 3.11, where reading them leaves a snapshot behind.

`frame.f_locals` fills a dict that stays on the frame, keeps what it holds alive after `del x`, is the very dict that an
earlier `locals()` gave to the user, and is written back into the variables when a trace function returns. So what it
held before is put back, and the mark that asks for writing back is taken off again. Python 3.12 and later need none
of this.
"""

from __future__ import annotations

import ctypes
import sys
from types import FrameType

from tenure.analysis.holders import plain


class _Frame(ctypes.Structure):
    """CPython 3.11's `PyFrameObject` behind the object header."""

    _fields_ = (
        ("back", ctypes.c_void_p),
        ("inner", ctypes.c_void_p),
        ("trace", ctypes.c_void_p),
        ("line", ctypes.c_int),
        ("trace_lines", ctypes.c_char),
        ("trace_opcodes", ctypes.c_char),
        ("write_back", ctypes.c_char),
    )


class _Inner(ctypes.Structure):
    """The beginning of CPython 3.11's `_PyInterpreterFrame`."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("func", "globals", "builtins", "locals", "code", "frame"))


def read(frame: FrameType, *, mine: bool) -> list[tuple[str, object]]:
    """The variables of a frame, with the snapshot and its mark left as they were.

    `mine` says that the frame cannot go on while this runs (this thread's, or one that has ended). Another thread's
    may, so its insides are not looked at: there only a snapshot that the user holds is told from an unused one.
    """
    outer = _Frame.from_address(id(frame) + object.__basicsize__)
    mark: bytes = outer.write_back
    kept = _snapshot(frame, outer) if mine else None
    before = {} if kept is None else dict(kept)
    made = frame.f_locals
    found = list(made.items())
    # The frame, `made` and the call's argument refer to an unused snapshot.
    if kept is not None or sys.getrefcount(made) <= 3:
        made.clear()
        made.update(before)
    outer.write_back = mark
    return found


def _snapshot(frame: FrameType, outer: _Frame) -> dict[str, object] | None:
    """The snapshot that the frame has already, if any."""
    if not outer.inner:
        return None
    inner = _Inner.from_address(outer.inner)
    if (inner.globals, inner.code, inner.frame) != (id(frame.f_globals), id(frame.f_code), id(frame)):
        return None
    if not inner.locals:
        return None
    value: object = ctypes.cast(inner.locals, ctypes.py_object).value
    return value if plain.is_dict(value) else None
