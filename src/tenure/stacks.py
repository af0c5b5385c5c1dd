"""Python stacks by number: cheap to take at every event, told in words only when a report needs them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any

from tenure import native, sites

Chain = tuple[tuple[CodeType, int], ...]  # code and instruction, innermost first

_FIRST = 1 << 24  # the native part's numbers are below
_DEEPEST = 192  # frames of a stack; the native part is given these
_MOST = 1 << 20  # stacks; later ones have no number
_numbers: dict[Chain, int] = {}
_chains: dict[int, Chain] = {}
_next = itertools.count(_FIRST)
_built: Any = None  # the native part, once it has been in use
_left = 0  # stacks to take until `_call` is called
_call: Callable[[], None] | None = None


def core() -> Any:
    """The native part, or None."""
    global _built
    found = native.load("tenure_stacks", "stacks.cpp", flags=["-std=c++20"])
    if found is not None and found is not _built:
        found.limit(_DEEPEST, _MOST)
        _built = found
    return found


def capturer() -> Callable[[], int]:
    """The quickest way to take the running stack's number."""
    built = core()
    return capture if built is None else built.capture


def capture() -> int:
    """The number of the running stack: the Python twin of the native part."""
    frame: FrameType | None = sys._getframe(1)
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < _DEEPEST:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    chain = tuple(found)
    _count()
    number = _numbers.get(chain)
    if number is None:
        if len(_chains) >= _MOST:
            return 0
        # No lock: a look for leaks can begin between any two of these instructions, and take a stack itself.
        fresh = next(_next)
        _chains[fresh] = chain
        number = _numbers.setdefault(chain, fresh)
    return number


def after(count: int, call: Callable[[], None] | None) -> None:
    """Call this after so many stacks were taken: soon, between two instructions of the main thread; None for nobody."""
    global _left, _call
    if core() is not None:
        _built.after(count, call)
    _left, _call = count, call


def overdue() -> int:
    """Return how many stacks were taken since the call of `after` was due, while the main thread did not make it."""
    return max(0, -_left if _built is None else _built.overdue())


def _count() -> None:
    global _left
    if _call is not None:
        _left -= 1
        if _left == 0:
            _pend()


def _pend() -> None:
    """Have the main thread call it. Not here: the stack is taken in the middle of something."""
    import ctypes

    ctypes.pythonapi.Py_AddPendingCall(_pended(), None)


@cache
def _pended() -> Any:
    import ctypes

    def call(_: Any) -> int:
        if _call is not None:
            _call()
        return 0

    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(call)


def chain(number: int) -> Chain:
    """The code and instructions of a stack."""
    if number >= _FIRST:
        return _chains[number]
    found: Chain = _built.chain(number) if number else ()
    return found


def text(stack: int | Chain) -> str:
    """The user's frames of a stack, innermost first, one a line: `/home/me/train.py:31 in step`.

    If none is the user's, all frames are told: better a library's line than none.
    """
    return _text(stack)


@cache
def plain(stack: int | Chain) -> str:
    """`text` with each line once: the same place, however deep a recursion was."""
    return "\n".join(dict.fromkeys(_text(stack).split("\n")))


def site(stack: int | Chain) -> str:
    """The innermost frame of the user's: the first line of `text`."""
    return _text(stack).partition("\n")[0]


@cache
def _text(stack: int | Chain) -> str:
    pairs = chain(stack) if isinstance(stack, int) else stack
    users = [pair for pair in pairs if sites.is_user(pair[0].co_filename)]
    return "\n".join(_line(*pair) for pair in users or pairs)


@cache
def _line(code: CodeType, lasti: int) -> str:
    site = sites.at(code, lasti)
    return f"{site.file}:{site.line} in {site.function}" if site is not None else ""
