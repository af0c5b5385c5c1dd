"""A trace made of what another tool recorded: rows in the order of time, written as the recorder's are."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any, Self

from tenure.trace.events import EVENTS, NUMBERS, VERSION, Dictionary, integers
from tenure.trace.writer import Stream

_ROWS = 1 << 16  # a batch
_FIELDS = ("time", "event", "buffer", "framework", "device", "bytes", "op", "site", "stack", "step", "cause", "kind", "name")  # fmt: skip
_NONE = -1
_LARGEST = 1 << 48  # bytes; see trace/streams.py
_LATEST = 32_503_680_000_000_000  # µs, likewise


class Making:
    """Writes the one stream of a trace. Words go in as text, or None; times are in µs since 1970."""

    def __init__(self, folder: Path, framework: str, notes: dict[str, str]) -> None:
        about = {"version": str(VERSION), "pid": "0", "command": "[]", "clock_offset_ns": "0", **notes}
        self._stream = Stream(folder, "events-0", about)
        self._words = Dictionary()
        self._columns = {name: array("q") for name in _FIELDS}
        self._framework = framework
        self._events = {name: self._words["event"].number(name) for name in EVENTS}
        self._last = 0
        self.births = 0

    def birth(
        self,
        time: int,
        device: str,
        nbytes: int,
        *,
        stack: str | None = None,
        op: str | None = None,
        kind: str | None = None,
        step: int | None = None,
    ) -> int:
        """A buffer came to be, or is first known of; its number."""
        if not 0 <= nbytes <= _LARGEST:
            raise ValueError(f"a block of {nbytes:,} bytes")
        self.births += 1
        self._row(
            "birth", time, self.births, bytes=nbytes, step=step, framework=self._framework, device=device, op=op,
            kind=kind, stack=stack, site=_site(stack),
        )  # fmt: skip
        return self.births

    def end(self, time: int, buffer: int, *, stack: str | None = None, step: int | None = None) -> None:
        """Its bytes are gone."""
        self._row("end", time, buffer, step=step, stack=stack, site=_site(stack))

    def step(self, time: int, number: int) -> None:
        """A training step is done."""
        self._row("step", time, None, step=number)

    def mark(self, time: int, name: str, step: int | None = None) -> None:
        """A moment with a name."""
        self._row("mark", time, None, step=step, name=name)

    def _row(self, event: str, time: int, buffer: int | None, **told: Any) -> None:
        if not 0 <= time <= _LATEST:
            raise ValueError(f"a time of {time:,} µs")
        told |= {"time": time, "buffer": buffer}
        for name, column in self._columns.items():
            value = told.get(name)
            if name == "event":
                value = self._events[event]
            elif isinstance(value, str):
                value = self._words[name].number(value)
            column.append(_NONE if value is None else value)
        if len(self._columns["time"]) >= _ROWS:
            self._write()

    def _write(self) -> None:
        length = len(self._columns["time"])
        if not length:
            return
        import pyarrow as pa

        columns: dict[str, Any] = {}
        for name, values in self._columns.items():
            known = [None if value == _NONE else value for value in values]
            columns[name] = integers(known, pa.int64() if name in NUMBERS else pa.int32())
            del values[:]
        self._stream.write(self._words.batch(columns, length))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Write what is left, and the end of the stream."""
        if kind is not None:
            self._stream.abandon()
            return
        self._write()
        self._stream.close()


def describe(folder: Path, source: str, notes: list[str]) -> None:
    """Say in meta.json what the trace was made of, and what is not known of it."""
    about = {"format": "tenure trace", "version": VERSION, "source": source, "notes": notes}
    (folder / "meta.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _site(stack: str | None) -> str | None:
    return stack.partition("\n")[0] if stack else None
