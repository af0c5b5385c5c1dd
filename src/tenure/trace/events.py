"""What a trace holds: the columns of its event stream, and how rows become Arrow batches.

The format is told in docs/trace-format.md. One row is one event of one buffer; what an operation did to a buffer is
folded into that buffer's next `use` or `end` row, so that the cost on disk goes with births, not with operations.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

VERSION = 1
STREAM = ".arrows"
# The files next to a stream: the sums that prove it, its digest (and that while it is written), and why its process
# could write no more, which is blank until then.
Beside = Literal[".sums", ".digest", ".tmp", ".reason"]
BESIDE: tuple[Beside, ...] = get_args(Beside)

EVENTS = ("birth", "use", "end", "kind", "step", "mark")
KINDS = ("parameter", "gradient", "optimizer state", "activation", "input", "constant", "temporary")

# Columns that are dictionaries of strings, and the plain ones with their Arrow types.
WORDS = (
    "event", "framework", "device", "shape", "dtype", "op", "site", "stack", "thread", "scope", "kind", "cause",
    "last_op", "last_site", "last_stack", "name",
)  # fmt: skip
NUMBERS = {
    "time": "timestamp[us]",
    "buffer": "uint32",
    "bytes": "int64",
    "step": "int32",
    "uses": "uint32",
    "last_use": "timestamp[us]",
}
COLUMNS = (
    "time", "event", "buffer", "framework", "device", "bytes", "shape", "dtype", "op", "site", "stack", "thread",
    "step", "scope", "kind", "cause", "uses", "last_use", "last_op", "last_site", "last_stack", "name",
)  # fmt: skip
# Words that say the same of several columns share their numbers.
SHARED = {"last_op": "op", "last_site": "site", "last_stack": "stack"}


def beside(stream: Path, what: Beside) -> Path:
    """The file of that kind next to a stream."""
    return stream.with_suffix(what)


@cache
def schema() -> Any:
    """The Arrow schema of the event stream."""
    import pyarrow as pa

    word = pa.dictionary(pa.int32(), pa.string())
    types = {
        "timestamp[us]": pa.timestamp("us", tz="UTC"),
        "uint32": pa.uint32(),
        "int64": pa.int64(),
        "int32": pa.int32(),
    }
    return pa.schema([(name, types[NUMBERS[name]] if name in NUMBERS else word) for name in COLUMNS])


@cache
def _fields() -> list[tuple[str, Any]]:
    return [(field.name, field.type) for field in schema()]


class Words:
    """The words of one column, each with a number; words are only ever added."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._array: Any = None
        self._seen = 0

    def number(self, word: str) -> int:
        """The number of this word."""
        return self._numbers.setdefault(word, len(self._numbers))

    def fresh(self) -> list[str]:
        """Return the words that were added since the last call."""
        seen, self._seen = self._seen, len(self._numbers)
        return list(self._numbers)[seen:] if seen < self._seen else []

    def array(self) -> Any:
        """All words so far, as an Arrow array that begins as the last one did."""
        import pyarrow as pa

        known = 0 if self._array is None else len(self._array)
        if self._array is None or known < len(self._numbers):
            # A file's name need not be text: what UTF-8 cannot say is spelled out.
            fresh = _texts([word.encode(errors="backslashreplace") for word in list(self._numbers)[known:]])
            self._array = fresh if self._array is None else pa.concat_arrays([self._array, fresh])
        return self._array


class Dictionary:
    """The words of all columns of one stream."""

    def __init__(self) -> None:
        words = {name: Words() for name in WORDS if name not in SHARED}
        self._words = {name: words[SHARED.get(name, name)] for name in WORDS}

    def __getitem__(self, column: str) -> Words:
        return self._words[column]

    def batch(self, columns: dict[str, Any], length: int) -> Any:
        """A record batch. Numbers come as Arrow arrays or sequences with None for what is not known, words as theirs."""
        import pyarrow as pa

        number = pa.int32()
        arrays: list[Any] = []
        for name, kind in _fields():
            values = columns.get(name)
            if values is None:
                arrays.append(pa.nulls(length, kind))
            elif name in NUMBERS:
                arrays.append(_array(values, kind))
            else:
                indices = _array(values, number)
                arrays.append(pa.DictionaryArray.from_arrays(indices, self._words[name].array(), safe=False))
        return pa.RecordBatch.from_arrays(arrays, schema=schema())


def _array(values: Any, kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values if values.type == kind else values.cast(kind)
    return integers(values, kind)


# Made of their parts: `pyarrow.array` imports pandas where there is one, which takes a second of the user's.


def integers(values: Sequence[int | None], kind: Any) -> Any:
    """An Arrow array of numbers; None for what is not known."""
    import pyarrow as pa

    code = {"int32": "i", "uint32": "I"}.get(str(kind), "q")
    data = array(code, [0 if value is None else value for value in values])
    bits = None
    if None in values:
        bits = bytearray((len(data) + 7) // 8)
        for at, value in enumerate(values):
            if value is not None:
                bits[at >> 3] |= 1 << (at & 7)
    return pa.Array.from_buffers(kind, len(data), [None if bits is None else pa.py_buffer(bits), pa.py_buffer(data)])


def _texts(words: Sequence[bytes]) -> Any:
    import pyarrow as pa

    ends = array("i", [0, *itertools.accumulate(map(len, words))])
    return pa.Array.from_buffers(pa.string(), len(words), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(words))])


def numbers(words: Words, texts: Iterable[str | None]) -> Sequence[int | None]:
    """The numbers of these words; None for None."""
    return [None if text is None else words.number(text) for text in texts]
