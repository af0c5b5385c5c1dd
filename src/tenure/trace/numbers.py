"""A stream as columns of numbers: words stay what they are on disk, and any batch can be read by itself.

To look words up for every row costs more than to read them. So the batches are read as if their words were plain
integers, in any order and in several threads, and the words once.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tenure.errors import TraceError
from tenure.trace.events import WORDS
from tenure.trace.streams import Stream, damaged

_THREADS = 2
_TOGETHER = 1 << 25  # bytes of batches in one chunk
_WAITING = 3 * _TOGETHER  # bytes of chunks that are read ahead

# The words of a column: from which batch on they count, and the words. Our own writer only ever adds words, and has one.
Words = list[tuple[int, Any]]


class Numbers:
    """One stream, read by numbers."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._places = stream.seen.places
        self._head: bytes | None = None
        self._words: dict[str, Words] = {}

    def __len__(self) -> int:
        """How many batches there are."""
        return len(self._places) // 2

    def chunks(
        self, columns: Sequence[str], batches: Sequence[int] | None = None, *, width: int = 32, ahead: int = 3
    ) -> Iterator[list[tuple[int, Any]]]:
        """These batches (all of them if not said) in their order, `width` at a time: each with its number.

        They are read in two threads, so many chunks ahead. Columns that the stream does not have are left out.
        """
        groups = self._groups(range(len(self)) if batches is None else batches, width)
        pool = _pool()
        waiting: list[tuple[int, Future[list[tuple[int, Any]]]]] = []
        for at in range(len(groups)):
            while len(waiting) < ahead and at + len(waiting) < len(groups):
                size, group = groups[at + len(waiting)]
                if waiting and size + sum(size for size, _ in waiting) > _WAITING:
                    break
                waiting.append((size, pool.submit(self._read, tuple(columns), group)))
            yield waiting.pop(0)[1].result()

    def _groups(self, batches: Sequence[int], width: int) -> list[tuple[int, list[int]]]:
        """The batches that are read at a time, and what they take in memory."""
        groups: list[tuple[int, list[int]]] = []
        for batch in batches:
            size = self.stream.seen.sizes[batch]
            if groups and len(groups[-1][1]) < width and groups[-1][0] + size <= _TOGETHER:
                groups[-1] = groups[-1][0] + size, [*groups[-1][1], batch]
            else:
                groups.append((size, [batch]))
        return groups

    def _read(self, columns: Sequence[str], batches: Sequence[int]) -> list[tuple[int, Any]]:
        import pyarrow as pa

        fields = sorted(self.stream.fields.index(name) for name in columns if name in self.stream.fields)
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        try:
            with self.stream.process.path.open("rb", buffering=0) as file:
                head = self._schema()
                parts = [head, *(self._piece(file, start, end) for start, end in self._pieces(batches))]
            with pa.ipc.open_stream(pa.py_buffer(b"".join(parts)), options=options) as reader:
                found = [(at, reader.read_next_batch()) for at in batches]
            for _, batch in found:
                batch.validate()
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise damaged(self.stream.process.path, error) from error
        return found

    def _pieces(self, batches: Sequence[int]) -> Iterator[tuple[int, int]]:
        """From where to where to read: batches that follow each other at once."""
        begun = done = -1
        for at in batches:
            start, end = self._places[2 * at : 2 * at + 2]
            if start != done:
                if begun >= 0:
                    yield begun, done
                begun = start
            done = end
        if begun >= 0:
            yield begun, done

    def _piece(self, file: Any, start: int, end: int) -> bytes:
        file.seek(start)
        data: bytes = file.read(end - start)
        if len(data) != end - start:
            raise TraceError(f"{self.stream.process.path} got shorter while it was read")
        return data

    def _schema(self) -> bytes:
        """The stream's schema with numbers for words."""
        import pyarrow as pa

        if self._head is None:
            with pa.OSFile(str(self.stream.process.path)) as file, pa.ipc.open_stream(file) as reader:
                found = reader.schema
            plain = [
                pa.field(one.name, one.type.index_type if pa.types.is_dictionary(one.type) else one.type)
                for one in found
            ]
            self._head = pa.schema(plain).serialize().to_pybytes()
        return self._head

    def words(self, column: str) -> Words:
        """The words of a column."""
        if not self._words:
            self._words = self._all_words()
        return self._words.get(column, [])

    def _all_words(self) -> dict[str, Words]:
        import pyarrow as pa

        seen = self.stream.seen
        names = [name for name in self.stream.fields if name in WORDS]
        found: dict[str, Words] = {name: [] for name in names}
        fields = sorted(self.stream.fields.index(name) for name in names)
        try:
            with self.stream.process.path.open("rb", buffering=0) as file:
                parts = [self._piece(file, 0, seen.head)]
                with pa.ipc.open_stream(pa.py_buffer(parts[0])) as reader:
                    empty = pa.RecordBatch.from_pylist([], reader.schema).serialize().to_pybytes()
                starts = list(seen.places[::2])
                looks = []  # what the words are before some are replaced, and from which batch on
                since = 0
                triples = [seen.words[at : at + 3] for at in range(0, len(seen.words), 3)]
                for at, (start, end, delta) in enumerate(triples):
                    next_batch = bisect_right(starts, start)
                    if not delta and at and next_batch > since:
                        parts.append(empty)
                        looks.append(since)
                        since = next_batch
                    parts.append(self._piece(file, start, end))
            looks.append(since)
            parts.append(empty)
            options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
            with pa.ipc.open_stream(pa.py_buffer(b"".join(parts)), options=options) as reader:
                for since in looks:
                    batch = reader.read_next_batch()
                    for name in names:
                        _learn(found[name], since, batch.column(name).dictionary)
            for words in found.values():
                for _, texts in words:
                    texts.validate(full=True)
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise damaged(self.stream.process.path, error) from error
        return found


def _learn(words: Words, since: int, fresh: Any) -> None:
    """Take up a dictionary: as a longer one of what is known, or, if it says other things, as one that counts from here."""
    if not words:
        words.append((0, fresh))
        return
    begun, known = words[-1]
    shorter = min(len(known), len(fresh))
    if known.slice(0, shorter).equals(fresh.slice(0, shorter)):
        words[-1] = (begun, max(known, fresh, key=len))
    else:
        words.append((since, fresh))


_threads: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def _pool() -> ThreadPoolExecutor:
    global _threads
    with _lock:
        if _threads is None:
            _threads = ThreadPoolExecutor(_THREADS, "tenure-read")
        return _threads
