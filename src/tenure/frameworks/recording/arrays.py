"""What the native recorders of JAX and TensorFlow have in common: their words, which Python numbers, and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure import native, stacks
from tenure.errors import described
from tenure.frameworks.base import Sink
from tenure.frameworks.recording.columns import CAUSES, Columns, Growing, Names

_EVENTS = ("birth", "use", "end", "step", "kind")  # as native/array_lives.h numbers them

# Where their buffers' numbers begin; those of other recorders are below.
FIRST_JAX = 3 << 30
FIRST_TENSORFLOW = 7 << 29


def core(framework: str) -> Any:
    """The native part for this framework, or None; `native.reason` says why."""
    if stacks.core() is None:
        return None
    return native.load(f"tenure_{framework}_recorder", f"{framework}_recorder.cpp", flags=["-std=c++20"])


class Arrays:
    """A native recorder as a `Source`; what begins and ends it, and what stands where, is the framework's."""

    name: str
    native = True
    tells_steps = True

    def __init__(self, core: Any, kinds: Sequence[str]) -> None:
        self.core = core
        self.sink: Sink | None = None
        self._kinds = kinds

    def begin(self, sink: Sink) -> None:
        """With empty tables."""
        self.sink = sink
        self.ops, self._whats, self._scopes = Names(), Names(), Names()
        self.old: list[str] = []  # the stacks of what was there before
        self._parts: dict[str, list[str]] = {"shape": [], "dtype": [], "device": []}
        self._begin_stream()

    def _begin_stream(self) -> None:
        """Which has been told no word yet."""
        self._threads = 0
        lists = {"op": self.ops.words, "scope": self._scopes.words, "old stack": self.old, **self._parts}
        self._growing = Growing(lists)
        tables = {"event": _EVENTS, "kind": self._kinds, "cause": CAUSES}
        self._columns = Columns(self.core, tables, self._fresh)

    def what(self, shape: str, dtype: str, device: str) -> int:
        """The number of what a buffer holds."""
        number = self._whats.number((shape, dtype, device))
        if number > len(self._parts["shape"]):
            for part, text in zip(self._parts.values(), (shape, dtype, device), strict=True):
                part.append(text)
        return number

    def _fresh(self) -> dict[str, Sequence[Any]]:
        threads = self.core.threads(self._threads)
        self._threads += len(threads)
        return {"thread": threads, **self._growing.fresh()}

    def trouble(self, error: BaseException) -> None:
        """What goes wrong in a recorder is no business of the user's code; the trace says it."""
        if self.sink is not None:
            self.sink.trouble(f"recording {self.name}: {described(error)}")

    def stepped(self) -> None:
        """A step is done."""
        if self.sink is not None:
            self.sink.step()

    def drain(self) -> Columns:
        """What was seen since the last time."""
        self._columns.read()
        return self._columns

    def at_step(self, number: int, *, tell: bool) -> None:
        """What comes now belongs to the next step."""
        self.core.step(number, tell)

    def in_scope(self, name: str) -> None:
        """What this thread makes belongs to this scope."""
        self.core.inside(self._scopes.number(name), -1)

    def ending(self, cause: str) -> None:
        """What this thread ends, it ends for this cause."""
        self.core.inside(-1, CAUSES.index(cause) + 1 if cause in CAUSES else 0)

    def forked(self, sink: Sink) -> None:
        """What the parent has is not this process's."""
        self.core.forget()
        self.sink = sink
        self._begin_stream()
