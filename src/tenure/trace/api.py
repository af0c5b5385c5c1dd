"""Recording from within a program: `trace`, `step`, `mark`."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tenure.errors import TraceError
from tenure.trace import autostart, recorder


def trace(path: str | os.PathLike[str] | None = None, *, steps: int | None = None, replace: bool = False) -> Tracing:
    """Record what happens to tensors, in this process and those that it starts, while the block runs.

    Example:
        with tenure.trace("my-trace") as t:
            train()
        print(tenure.load(t.path).buffers())

    Arguments:
        path: the folder of the trace, which must be new or empty. Default: `tenure-<script>`, and a number
            if there is one already.
        steps: record so many steps only; the block goes on.
        replace: if the folder contains an older trace, remove that first. Other files are never removed.

    In a program that is recorded as a whole, by `tenure run` or `TENURE_TRACE`, the block is part of that trace: its
    beginning and its end are marked, and `t.path` says where.
    """
    if steps is not None and steps < 1:
        raise TraceError(f"a trace of {steps} steps holds nothing; name a number from 1 on")
    return Tracing(None if path is None else Path(path), steps, replace)


class Tracing:
    """A recording; `path` is the folder of its trace."""

    def __init__(self, path: Path | None, steps: int | None, replace: bool) -> None:
        self._named = path
        self._steps = steps
        self._replace = replace
        self._recorder: recorder.Recorder | None = None
        self._joined = False  # whether the recording is another's, of which this block is a part
        self._before: dict[str, str | None] = {}

    @property
    def path(self) -> Path:
        """The folder of the trace, from the beginning of the block on."""
        if self._recorder is None:
            raise TraceError("the trace has not begun: its folder is known inside of the with block")
        return self._recorder.folder

    def __enter__(self) -> Self:
        from tenure.trace.limited import Careful, Limited

        autostart.wake()
        active = recorder.active()
        if isinstance(active, Careful):
            self._recorder, self._joined = active, True
            active.mark(f"{self._name} begins")
            return self
        if active is not None:
            raise TraceError(f"this process is being traced already, into {active.folder}; end that trace first")
        folder = unused(Path(sys.argv[0]).stem) if self._named is None else self._named.absolute()
        made = Limited(folder, steps=self._steps)
        told = {autostart.TRACE: str(folder), **autostart.run(steps=self._steps)}
        self._before = {name: os.environ.get(name) for name in told}
        begun = False
        try:
            autostart.accompany(made)
            made.start(replace=self._replace)
            self._recorder = made
            os.environ.update(told)  # for the processes that this one starts
            begun = True
        finally:
            if not begun:  # because of an error, or an interrupt: nothing stays
                self._end(made)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._recorder is None:
            return
        if self._joined:
            self._recorder.mark(f"{self._name} ends")
            return
        self._end(self._recorder)

    def _end(self, made: recorder.Recorder) -> None:
        try:
            for name, value in self._before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
        finally:
            made.stop()

    @property
    def _name(self) -> str:
        return "trace" if self._named is None else f"trace {self._named}"


def step(n: int | None = None) -> None:
    """Say that a step is done, and that number `n` follows (default: the next one). Nothing happens if nothing records.

    Where a program says this once, its word counts, and what tenure would find of its training loop does not.
    """
    autostart.wake()
    active = recorder.active()
    if active is not None:
        active.advance(n)


def mark(name: str) -> None:
    """Note this moment in the trace, by a name. Nothing happens if nothing records."""
    autostart.wake()
    active = recorder.active()
    if active is not None:
        active.mark(name)


def unused(stem: str) -> Path:
    """A new folder here, called after the script."""
    for number in itertools.count(1):
        folder = Path(f"tenure-{stem or 'trace'}" + (f"-{number}" if number > 1 else "")).absolute()
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise TraceError(f"cannot write a trace to {folder}: {error.strerror or error}") from error
        return folder
    raise AssertionError
