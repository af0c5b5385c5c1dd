"""A native recorder's rows on their way into a stream.

The recorder numbers words (operations, shapes, stacks) as they come; the stream has numbers of its own. For each new
word the recorder learns the stream's number, so that it gives whole columns, which Arrow takes as they are.
"""

from __future__ import annotations

import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from tenure import stacks

CAUSES = ("last reference", "delete", "donate", "dispose", "scope exit", "session close")


class Names:
    """Words by number, as they come, from 1 on; none is 0."""

    def __init__(self) -> None:
        self.words: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, word: Any) -> int:
        """The number of this word."""
        if not word:
            return 0
        number = self._numbers.get(word)
        if number is None:
            self.words.append(word)
            number = self._numbers[word] = len(self.words)
        return number


class Columns:
    """What `Source.drain` gives.

    `core` is the native part. `tables` are the words that its own numbers stand for, from 1 on, and `fresh` gives those
    that have come since it was called last, by column; of threads their idents.
    """

    def __init__(
        self, core: Any, tables: Mapping[str, Sequence[str]], fresh: Callable[[], Mapping[str, Iterable[Any]]]
    ) -> None:
        self._core = core
        self._tables = tables
        self._fresh = fresh
        self._begun = False
        self._length = self._stack = self._known = 0

    def read(self, *args: Any) -> None:
        """Take what the recorder has."""
        self._length, self._stack = self._core.read(*args)

    def take(self, dictionary: Any, since: Callable[[int], int], framework: str) -> tuple[dict[str, Any], int]:
        """What `Dictionary.batch` takes, and how many rows."""
        import pyarrow as pa

        length, self._length = self._length, 0
        if not length:
            return {}, 0
        self._learn(dictionary)
        kinds = _kinds()
        columns = {
            name: pa.Array.from_buffers(
                kinds[name], length, [None if bits is None else pa.py_buffer(bits), pa.py_buffer(values)]
            )
            for name, (values, bits) in self._core.columns(since(0) * 1000).items()
        }
        same = array("i", [dictionary["framework"].number(framework)]) * length
        columns["framework"] = pa.Array.from_buffers(pa.int32(), length, [None, pa.py_buffer(same)])
        return columns, length

    def _learn(self, dictionary: Any) -> None:
        """Tell the recorder the stream's numbers of words that are new."""

        def learn(what: str, texts: Iterable[str], column: str = "") -> None:
            words = dictionary[column or what]
            numbers = [words.number(text) if text else -1 for text in texts]
            if numbers:
                self._core.learn(what, numbers)

        if not self._begun:
            self._begun = True
            for what, table in self._tables.items():
                learn(what, ("", *table))
            for what in ("op", "shape", "dtype", "device", "thread", "stack", "site", "scope"):
                if what not in self._tables:
                    learn(what, [""])  # number 0 is none
        for what, texts in self._fresh().items():
            if what == "thread":
                learn(what, _thread_names(texts))
            elif what == "old stack":
                found = list(texts)
                learn(what, found, "stack")
                learn("old site", [text.partition("\n")[0] for text in found], "site")
            else:
                learn(what, texts)
        fresh = range(self._known + 1, self._stack + 1)
        if fresh:
            learn("stack", map(stacks.text, fresh))
            learn("site", map(stacks.site, fresh))
            self._known = self._stack


class Growing:
    """What has come to some lists since they were looked at last; see `Columns`."""

    def __init__(self, lists: Mapping[str, Sequence[Any]]) -> None:
        self._lists = lists
        self._known = dict.fromkeys(lists, 0)

    def fresh(self) -> dict[str, Sequence[Any]]:
        """It, by name."""
        found = {}
        for name, words in self._lists.items():
            if len(words) > self._known[name]:
                found[name] = words[self._known[name] :]
                self._known[name] += len(found[name])
        return found


def _thread_names(idents: Iterable[int]) -> list[str]:
    wanted = list(idents)
    names = {thread.ident: thread.name for thread in threading.enumerate()} if wanted else {}
    return [names.get(ident, f"thread {ident}") for ident in wanted]


@cache
def _kinds() -> dict[str, Any]:
    """The Arrow types of columns; of words it is that of their numbers."""
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC")
    numbers = {"bytes": pa.int64(), "buffer": pa.uint32(), "uses": pa.uint32(), "time": moment, "last_use": moment}
    return defaultdict(pa.int32, numbers)
