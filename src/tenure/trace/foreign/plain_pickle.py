"""Reading pickles that hold plain data. A pickle is a program; of this one only what builds plain values is run."""

from __future__ import annotations

import io
import pickle
import re
from typing import Any

from tenure.errors import TraceError

# Instructions without an argument, and those with one of so many bytes. A number may have nine: what is longer is no address, and
# numbers of any length can be chosen so that a dict of them takes for ever.
_SIMPLE = rb"[(012QRabdelostu})\]N\x81\x85-\x89\x8f-\x94\x97\x98]"
_ARGUMENTS = rb"[Khq\x80\x82].|[M\x83]..|[Jj\x84].{4}|[G\x95].{8}|\x8a(?:" + b"|".join(
    rb"\x%02x.{%d}" % (count, count) for count in range(10)
) + rb")"  # fmt: skip
# After these comes a length, in so many bytes, and as many bytes as it says; after those, lines.
_LENGTHS = {0x8C: 1, 0x55: 1, 0x43: 1, 0x58: 4, 0x54: 4, 0x42: 4, 0x8D: 8, 0x8E: 8, 0x96: 8}
_LINES = {**dict.fromkeys(b"IFSVgP", 1), **dict.fromkeys(b"ci", 2)}
_MANY = 1 << 20  # bytes, from which on it matters how many lists and dicts they hold
_EACH = 6  # bytes that a list or dict has at least; each takes 60 in memory


class _Asked(pickle.UnpicklingError):
    """A pickle asked for something of a module."""


class _Plain(pickle.Unpickler):
    """Knows dicts, lists, tuples, sets, text, bytes and numbers, for which a pickle needs no class and no function."""

    def find_class(self, module: str, name: str) -> Any:
        raise _Asked(f"{module}.{name}"[:80])

    def persistent_load(self, pid: Any) -> Any:
        raise _Asked("an object outside the file")


def loads(data: bytes, name: str) -> Any:
    """The value in a pickle that came from anywhere. `TraceError` if it is more than plain data, or damaged."""
    try:
        _weigh(data)
        return _Plain(io.BytesIO(data)).load()
    except _Asked as error:
        asked = "".join(letter if letter.isprintable() else "?" for letter in str(error))
        raise TraceError(
            f"{name} is not read: it asks for {asked}, and a snapshot is plain data; nothing of it was executed"
        ) from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle fails in any way that its bytes can
        raise TraceError(f"{name} is damaged: as a pickle, {_why(error)}; copy it again, or dump it again") from None


def _weigh(data: bytes) -> None:
    """See that it takes memory as its length does: some instructions make pickle allocate whatever they say."""
    marks = (b"]", b"}", b"\x85", b"\x86", b"\x87", b"\x8f", b"(l", b"(d", b"(t")
    if len(data) > _MANY and sum(map(data.count, marks)) > len(data) // _EACH:
        raise pickle.UnpicklingError("it contains almost only empty values")
    # Where a value is remembered: pickle makes a table as long as the number says, so it may be as large as the data.
    high, low = divmod(len(data) >> 16, 256)
    places = rb"r..(?:.[\x00-\x%02x]|[\x00-\x%02x]\x%02x)" % (high - 1, low, high) if high else rb"r..[\x00-\x%02x]\x00" % low  # fmt: skip
    run = re.compile(rb"(?:%s|%s|%s)*+" % (_SIMPLE, _ARGUMENTS, places), re.DOTALL).match
    at = 0
    while at < len(data):
        found = run(data, at)
        at = found.end() if found else at
        kind = data[at] if at < len(data) else 0
        if kind in _LENGTHS:
            begin = at + 1 + _LENGTHS[kind]
            at = begin + int.from_bytes(data[at + 1 : begin], "little")
        elif kind in _LINES:
            for _ in range(_LINES[kind]):
                at = data.find(b"\n", at + 1)
                if at < 0:
                    raise EOFError
            at += 1
        elif kind in b"rp\x8a\x8bL":  # the last three as text, or of a length of their own: nobody writes them so
            raise pickle.UnpicklingError(f"byte {at:,} holds a number that is too large")
        else:
            break  # its end, or what is none: pickle says what is wrong
    if at > len(data):
        raise EOFError


def _why(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "it is cut off"
    told = " ".join(str(error).split())[:120]
    return f"it fails with {type(error).__name__}" + (f" ({told})" if told.isprintable() and told else "")
