"""`trace`, `step` and `mark`: recording from within a program."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tenure.errors import TraceError
from tenure.trace import autostart, folders, recorder


def trace(path: str | os.PathLike[str] | None = None, *, steps: int | None = None, replace: bool = False) -> Tracing:
    """Record the tensors of this process, and of processes that it starts, while the block runs.

    In a program that `tenure run` or `TENURE_TRACE` records as a whole, the block is part of that trace: marks show where
    it begins and ends, and `path` is the folder of that trace.

    Example:
        with tenure.trace("my-trace") as t:
            train()
        print(tenure.load(t.path).buffers())

    Arguments:
        path: The folder of the trace, which must be new or empty. Default: `tenure-SCRIPT`, or `tenure-SCRIPT-2` and so
            on if that exists.
        steps: Record only the first N steps; the block continues.
        replace: Remove an older trace in the folder first. Other files are never removed.

    Raises:
        TraceError: The trace cannot be written there, or this process is already being traced.
    """
    if steps is not None and steps < 1:
        raise TraceError(f"cannot record {steps} steps; use 1 or more")
    return Tracing(None if path is None else Path(path), steps, replace)


class Tracing:
    """A recording in progress; `tenure.trace` returns one."""

    def __init__(self, path: Path | None, steps: int | None, replace: bool) -> None:
        self._named = path
        self._steps = steps
        self._replace = replace
        self._recorder: recorder.Recorder | None = None
        self._joined = False  # whether the recording is another's, of which this block is a part
        self._before: dict[str, str | None] = {}

    @property
    def path(self) -> Path:
        """The folder of the trace. It is known inside the `with` block and after it."""
        if self._recorder is None:
            raise TraceError("the trace has not begun: its folder is known only inside the `with` block")
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
            raise TraceError(f"this process is being traced already, into {active.folder}; stop that recording first")
        folder = (
            default_folder(Path(sys.argv[0]).stem, replace=self._replace)
            if self._named is None
            else self._named.absolute()
        )
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
    """Mark the end of a training step in the trace. Without a recording, this does nothing.

    A program that calls this numbers its own steps; tenure then does not detect them.

    Example:
        for batch in loader:
            train(batch)
            tenure.step()

    Arguments:
        n: The number of the step that begins now. Default: the next number.
    """
    autostart.wake()
    active = recorder.active()
    if active is not None:
        active.advance(n)


def mark(name: str) -> None:
    """Mark this point in time in the trace, with a name. Without a recording, this does nothing.

    Example:
        tenure.mark("evaluation begins")
    """
    autostart.wake()
    active = recorder.active()
    if active is not None:
        active.mark(name)


def default_folder(stem: str, *, replace: bool) -> Path:
    """Return the folder that is named after the script: a new one with a number if it exists, unless it is replaced."""
    first = Path(f"tenure-{stem or 'trace'}").absolute()
    if replace:
        return first
    for folder in folders.candidates(first):
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise folders.not_writable(folder, error) from error
        return folder
    raise AssertionError
