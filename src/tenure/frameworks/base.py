"""What tenure asks of a framework. One adapter each; nothing else in tenure imports a framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tenure.frameworks.host import Span
from tenure.model import TensorInfo


@dataclass(frozen=True)
class Buffer:
    """The bytes behind a tensor: an identity, a size, and a way to ask whether they are gone.

    `gone` must not keep the bytes alive. It returns None where the framework gives no way to know. `span` is where
    they lie, if known. `shared` says that there may be readers that `gone` does not know of: look for them by `span`.
    """

    key: object
    nbytes: int
    device: str
    gone: Callable[[], bool | None]
    span: Span | None = None
    shared: bool = False


@dataclass(frozen=True)
class Inner:
    """A reference to a buffer that only native code holds, or a private slot does, named for the user.

    `via` is the Python object through which it is reached (a tensor whose `grad_fn` leads there), None if unknown.
    """

    text: str
    kind: str
    via: object = None


class Framework(Protocol):
    """One framework's part: what its tensors are, how they end, and who holds them natively."""

    name: str
    # Whether its C++ passes a Python exception on wherever it calls Python, and its tensors answer without waiting.
    passes_errors: bool

    def owns(self, kind: type) -> bool:
        """Whether instances of this class are this framework's tensors (concrete or symbolic)."""

    def info(self, tensor: Any) -> TensorInfo:
        """The description of a live or ended tensor; never reads its data."""

    def buffers(self, tensor: Any) -> list[Buffer]:
        """The buffers behind a tensor; empty for a symbolic or ended one."""

    def refusal(self, tensor: Any) -> str:
        """Why this tensor cannot be ended under its handle; empty if it can."""

    def sole(self, tensors: list[Any]) -> dict[object, bool | None]:
        """For each buffer key: would ending exactly these handles free it? None where that cannot be known."""

    def end(self, tensors: list[Any], notice: Callable[[Any], TensorInfo]) -> list[tuple[Any, str]]:
        """End these handles now: bytes go with the last other user, metadata stays, access raises TensorReleased.

        `notice` gives the description that an ended handle is remembered by. Handles that only the attempt showed to
        be out of reach are left as they were, and returned with the reason.
        """

    def prepare(self, hidden: Callable[[Any], AbstractContextManager[None]]) -> None:
        """Called before births are watched. While `hidden(tensor)` is entered, tenure has no weak reference to it."""

    def births(self) -> Iterable[tuple[type, Callable[[Any], int] | None]]:
        """Classes whose new instances a scope claims.

        With each, where native users of a handle together hold it by one reference, what counts them; else None.
        """

    def exempt(self, tensors: list[Any]) -> set[int]:
        """The ids of those born in a scope, all of one class, that belong to something longer-lived.

        Buffers of modules, optimizer state, cached results, constants that a compiler caches.
        """

    def live(self) -> Iterator[Any]:
        """Every live tensor that Python can reach."""

    def inner(self, tensor: Any) -> list[Inner]:
        """References to this tensor's buffers that the garbage collector cannot show."""


def memories(buffers: Iterable[Buffer]) -> list[tuple[int, list[Buffer]]]:
    """Each memory once: its size, and the buffers that lie on it.

    That can be several: what DLPack gives has a storage of its own on the same bytes, a NumPy slice is no other's.
    """
    distinct = list({buffer.key: buffer for buffer in buffers}.values())
    groups = [[at] for at, buffer in enumerate(distinct) if buffer.span is None]
    place, stop = "", 0
    for (where, first, last), at in sorted((buffer.span, at) for at, buffer in enumerate(distinct) if buffer.span):
        if where == place and first < stop:
            groups[-1].append(at)
            stop = max(stop, last)
        else:
            groups.append([at])
            place, stop = where, last
    return [
        (_extent(group), group) for group in ([distinct[at] for at in sorted(ats)] for ats in sorted(groups, key=min))
    ]


def _extent(aliases: list[Buffer]) -> int:
    spans = [buffer.span for buffer in aliases if buffer.span is not None]
    return max(last for _, _, last in spans) - min(first for _, first, _ in spans) if spans else aliases[0].nbytes


@dataclass(frozen=True)
class Crowd:
    """Things of one origin that are alive together: buffers born at one place, traces of one function, and so on.

    `what` says what they are ("buffers", "nodes", "traces", "operations", "tapes", "shared"); `stack` is the user's
    lines where they come from, as `tenure.stacks.text` tells them; `steps` in how many different steps they were
    born (as far as that is known); `last_use` when one of them was last used, by the monotonic clock, 0 if that is not
    known. `members` is what `Growing.members` makes the single things of.
    """

    framework: str
    what: str
    stack: str
    count: int
    nbytes: int = 0
    steps: int = 0
    name: str = ""
    members: Sequence[Any] = ()
    last_use: int = 0


class Growing(Protocol):
    """Looks at what of a framework grows while a program runs. Called in the main thread, now and then."""

    def crowds(self, least: int) -> list[Crowd]:
        """What there are at least so many of."""

    def buffers(self) -> list[Crowd]:
        """The buffers alone, by birthplace, however few: quick, so that it can be asked after every test."""

    def expects_steps(self) -> bool:
        """Whether there is something that will take training steps: what is made before the first is no leak yet."""

    def members(self, crowd: Crowd) -> Sequence[Any]:
        """The single things of a crowd, the oldest first."""

    def held(self, crowd: Crowd, members: Sequence[Any]) -> tuple[list[Any], list[Buffer]]:
        """The handles of these members, and their buffers: what the search for holders takes."""

    def facts(self, handle: Any) -> dict[str, Any]:
        """What of a handle decides which fault it is: whether it carries a graph, its shape, what it is a view of."""

    def on_failure(self, tell: Callable[[str, int | None], None]) -> None:
        """Have this told, before the error goes on, when memory could not be had: in words, and the bytes if known."""

    def stop(self) -> None:
        """Undo what was done to look."""


class Sink(Protocol):
    """Where a framework's recorder tells what happens to buffers. Calls are quick, and may come from any thread.

    `stack` is what `tenure.stacks.capture()` gave, or anything that `tenure.stacks.text` can tell; `time` is
    `time.monotonic_ns()`, now if left out.
    """

    def born(
        self,
        framework: str,
        nbytes: int,
        device: str,
        op: str = "",
        shape: object = None,
        dtype: str = "",
        stack: object = 0,
        kind: str = "",
        time: int = 0,
    ) -> int:
        """A buffer came to be (or was first seen); the number by which it goes from now on."""

    def used(self, buffer: int, op: str = "", stack: object = 0, time: int = 0) -> None:
        """An operation took it."""

    def ended(self, buffer: int, cause: str = "last reference", stack: object = 0, time: int = 0) -> None:
        """Its bytes are gone. Told once; later calls for the same buffer are passed over."""

    def is_a(self, buffer: int, kind: str) -> None:
        """It was found out to be a parameter, gradient, optimizer state, activation, input, constant."""

    def step(self, number: int | None = None) -> None:
        """A training step is done, as the framework's own training loop shows."""

    def trouble(self, text: str) -> None:
        """Something went wrong in the recorder: the trace says so, once for each text, and the program goes on."""

    def partly(self, results: tuple[str, ...], why: str) -> None:
        """The trace gives these results ("leaks", "peak", "last uses") only in part. Noted once for each reason."""


class Source(Protocol):
    """A framework's recorder."""

    name: str
    native: bool
    tells_steps: bool  # whether it can put the end of a step into its own rows

    def start(self, sink: Sink) -> None:
        """Begin to tell `sink`."""

    def drain(self) -> Any:
        """Called several times a second by the writer's thread: look after what cannot be seen as it happens.

        A native recorder, which keeps its own tables, returns them as an object with a method `take`; others None.
        """

    def at_step(self, number: int, *, tell: bool) -> None:
        """A step is done and this is the next one's number; called in the thread that told so.

        Of several recorders one is to `tell` it in its rows, if there is one that can.
        """

    def in_scope(self, name: str) -> None:
        """The scope that this thread is in from now on (empty: none); rows in Python know it by themselves."""

    def ending(self, cause: str) -> None:
        """What this thread ends from now on, it ends for this cause (empty: by itself)."""

    def forked(self, sink: Sink) -> None:
        """In a child made by fork, which starts with empty tables: tell this sink instead."""

    def stop(self) -> None:
        """Undo what `start` did, whatever happened in between; `drain` is called once more after it."""
