"""An exception as the faults look at it, made from a live one or from the text of its traceback."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import Any

from tenure import sites
from tenure.explain import escapes, kept, leaks, message
from tenure.explain.autograd import Autograd
from tenure.explain.endings import Endings
from tenure.explain.escapes import Escape
from tenure.explain.flow import Flow
from tenure.explain.graphs import Graphs
from tenure.explain.source import Source, name_of, names_in, read
from tenure.findings import Edit, Place, Role

_LIBRARY = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3[^/\\]*[/\\]|__autograph_generated_file|^<(?:frozen|__array_func|string>)"
)
_STEPS = (
    "train_step", "test_step", "predict_step", "compute_loss", "compute_metrics", "call", "update_state", "result",
)  # fmt: skip
_LONGEST = 200_000  # characters of a message
_DEEPEST = 400  # frames; a recursion that went wrong has thousands that say the same


@dataclass(frozen=True)
class Frame:
    """One line of a traceback. `values` are the locals where the frame is at hand: looked at, never shown."""

    file: str
    line: int
    function: str
    text: str = ""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False, hash=False)
    module: dict[str, Any] | None = field(default=None, repr=False, compare=False, hash=False)

    @property
    def is_user(self) -> bool:
        """Whether this is the user's own code, as far as its file tells."""
        return not _LIBRARY.search(self.file) and sites.is_user(self.file)

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.function.partition("(")[0].rpartition(".")[2]


@dataclass
class Raised:
    """One exception: its type's name, what it says, its frames (outermost first), and what it came from.

    `causes` are shown with it; `embedded` are those whose traceback is part of its message. `exception` is None where only
    a text was at hand; `log` is the whole of that text.
    """

    kind: str
    message: str
    frames: tuple[Frame, ...] = ()
    module: str = ""
    causes: tuple[Raised, ...] = ()
    embedded: tuple[Raised, ...] = ()
    exception: BaseException | None = None
    log: str = ""
    outer: Raised | None = None

    def chain(self) -> Iterator[Raised]:
        """The exception and what it came from; before it, those whose traceback stands in its message."""
        for inner in self.embedded:
            yield from inner.chain()
        yield self
        for cause in self.causes:
            yield from cause.chain()

    def says(self, pattern: str, *kinds: str) -> re.Match[str] | None:
        """Where the message has this, if the exception is of one of these kinds (or none are named)."""
        if kinds and self.kind not in kinds and self.inner_kind not in kinds:
            return None
        return re.search(pattern, self.message)

    @cached_property
    def inner_kind(self) -> str:
        """The kind that AutoGraph names inside `in user code:`."""
        return message.inner_kind(self.message)

    @cached_property
    def stack(self) -> tuple[Frame, ...]:
        """The frames, and those that the message itself tells (`in user code:`)."""
        told = tuple(Frame(*site) for site in message.user_code(self.message))
        return (*self.frames, *told)

    @cached_property
    def user(self) -> tuple[Frame, ...]:
        """The user's frames, outermost first."""
        found = tuple(frame for frame in self.stack if frame.is_user)
        if not found and self.outer is not None:
            return self.outer.user
        # Somebody else's library may be all there is between the interpreter and the framework.
        return found or tuple(f for f in self.stack if sites.is_user(f.file) and "__autograph_gen" not in f.file)

    @property
    def here(self) -> Frame | None:
        """Where in the user's code it was raised."""
        return self.user[-1] if self.user else None

    @cached_property
    def in_trace(self) -> bool:
        """Whether TensorFlow was tracing the user's function when it was raised."""
        return "in user code:" in self.message or any("__autograph_generated_file" in f.file for f in self.frames)

    @cached_property
    def in_notebook(self) -> bool:
        """Whether it was raised in a cell of a notebook."""
        return any(re.match(r"Cell In|<ipython-input|.*[/\\]ipykernel_", frame.file) for frame in self.user)

    @cached_property
    def in_keras_step(self) -> bool:
        """Return whether Keras called the failing function while it built a graph: fit() hides its own frames.

        It is a method of a model, layer, loss or metric, or a function that compile() got as a loss or metric.
        """
        here, source = self.here, self.source(self.here)
        if here is None or source is None:
            return False
        function = source.function(here.line)
        if name_of(function) != here.name:
            return False
        if here.name in _STEPS and source.class_of(function) is not None:
            return True
        given = (part for call in source.calls("compile") for part in (*call.args, *(k.value for k in call.keywords)))
        return any(here.name in names_in(part) for part in given)

    @cached_property
    def born(self) -> tuple[Frame, ...]:
        """The user's stack at the birth of the value, where the framework tells it in the message."""
        told = tuple(Frame(*site) for site in message.birth(self.message))
        return tuple(frame for frame in told if frame.is_user) or told

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The files of the user's frames, innermost first, and the files beside them that they import."""
        found: dict[str, Source] = {}
        for frame in (*reversed(self.user), *reversed(self.born)):
            if frame.file not in found and len(found) < 12 and (source := self.source(frame)) is not None:
                found[frame.file] = source
        for source in tuple(found.values()):
            for near in source.neighbours:
                found.setdefault(near.file, near)
        return tuple(found.values())

    def source(self, frame: Frame | None) -> Source | None:
        """The source of a frame's file, if it still has that line."""
        if frame is None:
            return None
        cache: dict[str, Source | None] = self.__dict__.setdefault("_sources", {})
        if frame.file not in cache:
            cache[frame.file] = read(frame.file, frame.module)
        source = cache[frame.file]
        changed = source is not None and frame.text and "…" not in frame.text and not _same(source, frame)
        return None if changed else source

    def place(self, role: Role, frame: Frame) -> Place:
        """A frame as a place."""
        source = self.source(frame)
        text = source.text(frame.line) if source else ""
        return Place(role, frame.file, frame.line, frame.function, text or frame.text)

    @property
    def use(self) -> list[Place]:
        """Where the value was used, and below a helper module the line of the program that called it."""
        return self.places("use", self.user)

    def places(self, role: Role, stack: tuple[Frame, ...]) -> list[Place]:
        """The innermost frame of a stack; if that is in another file than the program, the program's innermost before it."""
        program = self.user[0].file if self.user else ""
        near = [frame for frame in stack if frame.file == program]
        found = [*near[-1:], *stack[-1:]]
        return [self.place(role, frame) for frame in dict.fromkeys(found)]

    def site(self, role: Role, file: str, line: int) -> Place:
        """A place that a message names."""
        return self.place(role, Frame(file, line, ""))

    @cached_property
    def loops(self) -> list[Place]:
        """The loops that the user's frames are in, the outermost first."""
        found = []
        for frame in self.user:
            source = self.source(frame)
            around = Flow(source, source.function(frame.line)).loops(frame.line) if source is not None else []
            found += [self.place("holder", replace(frame, line=loop.lineno)) for loop in reversed(around)]
        return found

    def calls(self, role: Role, *endings: str) -> list[Place]:
        """The calls in the sources of something whose dotted name ends so."""
        return [source.place(role, call) for source in self.sources for call in source.calls(*endings)]

    def added(self, keyword: str, *endings: str, at: int | None = None) -> tuple[Edit, ...]:
        """The change that gives the first call of such a name (on line `at`) one more argument, if it has not got it."""
        for source in self.sources:
            for call in source.calls(*endings):
                name = keyword.partition("=")[0]
                if at in (None, call.lineno) and all(given.arg != name for given in call.keywords):
                    return (source.with_keyword(call, keyword),)
        return ()

    def mentions(self, *words: str) -> list[Place]:
        """Where the sources name one of these: a name, an attribute, a keyword, a module."""
        return [
            source.place("holder", node)
            for source in self.sources
            for node in source.nodes
            if _names(node) & set(words)
        ]

    def assignments(self, role: Role, target: str) -> list[Place]:
        """The assignments to exactly this, below the failing line first."""
        line = self.here.line if self.here else 0
        found = [
            source.place(role, node)
            for source in self.sources
            for node in source.nodes
            if isinstance(node, ast.Assign) and any(ast.unparse(one) == target for one in node.targets)
        ]
        return sorted(found, key=lambda place: place.line < line)

    @cached_property
    def leak(self) -> leaks.Leak | None:
        """The value of a trace that got out of it, if that is what this is about."""
        return leaks.find(self)

    @cached_property
    def is_traced(self) -> bool:
        """Whether one of the user's frames is a function that is traced or transformed."""
        return leaks.is_traced(self)

    @cached_property
    def reads_symbol(self) -> bool:
        """Whether the value of a symbolic tensor is asked for where its graph is still being built."""
        if not self.says(leaks.SYMBOLIC):
            return False
        return self.in_trace or self.in_keras_step or self.is_traced or self.graphs.is_graph_mode

    @cached_property
    def graphs(self) -> Graphs:
        """What is known of TensorFlow's graphs and sessions."""
        return Graphs(self)

    @cached_property
    def autograd(self) -> Autograd:
        """What is known of torch's autograd."""
        return Autograd(self)

    @cached_property
    def endings(self) -> Endings:
        """What is known of the value's end."""
        return Endings(self)

    @cached_property
    def exports(self) -> tuple[list[Place], tuple[Edit, ...]]:
        """Where views were made of the buffer that the failing line resizes, and the edit that makes a copy."""
        return kept.exports(self)

    @cached_property
    def lent(self) -> list[Place]:
        """Where what the failing line names got memory that its framework did not allocate."""
        return kept.lent(self)

    @cached_property
    def weak_maps(self) -> tuple[list[Place], list[Place]]:
        """Where the weak map that the failing line reads was made, and where an entry was put into it."""
        return kept.weak_maps(self)

    @cached_property
    def with_graph(self) -> tuple[str, Place | None, bool]:
        """What of a copied object carries a graph: its name, where it is set, and whether it was seen."""
        return kept.with_graph(self)

    def escape(self, stack: tuple[Frame, ...] = ()) -> Escape | None:
        """The statement through which a value got out of the function that made it, if one can be told.

        `stack` is the user's stack at its birth; without one, all functions of the sources are looked at.
        """
        return escapes.find(self, stack)


def from_exception(exc: BaseException, *, depth: int = 0) -> Raised:
    """A live exception. Runs no code of the user's but the exception's own `__str__`."""
    text = _text(exc)
    name, module = _kind(exc)
    causes: list[Raised] = []
    embedded: list[Raised] = []
    if depth < 8:
        cause = exc.__cause__ or (None if exc.__suppress_context__ else exc.__context__)
        if cause is not None and cause is not exc:
            causes.append(from_exception(cause, depth=depth + 1))
        if issubclass(type(exc), BaseExceptionGroup):
            causes += [from_exception(one, depth=depth + 1) for one in BaseExceptionGroup.exceptions.__get__(exc)]
        embedded = message.nested(text)
    frames = tuple(_frames(exc.__traceback__))
    raised = Raised(
        name,
        text,
        frames,
        module,
        tuple(causes),
        tuple(embedded),
        exc,
        log=text,
    )
    return _joined(raised)


def _names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, ast.keyword):
        return {node.arg or ""}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {part for alias in node.names for part in alias.name.split(".")} | set(
            (getattr(node, "module", None) or "").split(".")
        )
    return set()


def _joined(raised: Raised) -> Raised:
    for cause in (*raised.causes, *raised.embedded):
        cause.outer = raised
    return raised


def _kind(exc: BaseException) -> tuple[str, str]:
    """The name and module of its class, past whatever a metaclass makes of them."""
    kind = type(exc)
    module = type.__dict__["__dict__"].__get__(kind).get("__module__")
    return type.__dict__["__name__"].__get__(kind), module if isinstance(module, str) else ""


def _text(exc: BaseException) -> str:
    try:
        return str.__str__(str(exc))[:_LONGEST]
    except Exception:  # noqa: BLE001 - whatever the user's __str__ raises, there is no message then
        return ""


def _frames(at: TracebackType | None) -> Iterator[Frame]:
    count = 0
    while at is not None and count < _DEEPEST:
        frame, count = at.tb_frame, count + 1
        code = frame.f_code
        values = frame.f_locals if _plain(frame.f_locals) else {}
        yield Frame(
            code.co_filename, at.tb_lineno or code.co_firstlineno, code.co_qualname, "", values, frame.f_globals
        )
        at = at.tb_next


def _plain(values: object) -> bool:
    """A class body may run over a mapping of the user's, which can do anything when it is read."""
    return type(values) is dict or type(values).__name__ == "FrameLocalsProxy"


def _same(source: Source, frame: Frame) -> bool:
    """Whether the file still says there what the traceback says: a log may be older than the file."""
    line = " ".join(source.text(frame.line).split())
    return " ".join(frame.text.split()).startswith(line[:40]) if line else False
