"""Where paths begin: variables of running frames, namespaces of modules, classes, threads, exceptions being handled."""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    ModuleType,
)
from typing import Any

from tenure import sites
from tenure.analysis.holders import frames, keepers, plain, sources
from tenure.model import Link, Site

# Values that lead to no tensor, and that half the heap refers to.
_DULL = (str, int, float, bool, complex, bytes, type(None), type, ModuleType, CodeType, BuiltinFunctionType)
_CODE_OF: dict[type, str] = {
    FunctionType: "__code__",
    GeneratorType: "gi_code",
    CoroutineType: "cr_code",
    AsyncGeneratorType: "ag_code",
}
_LAST = ("last_value", "last_traceback", "last_exc", "last_type")


@dataclass(frozen=True)
class Root:
    """A beginning: its first links; `rank` is 0 in the user's code, 1 in a library's, 2 in tenure's (never told)."""

    kind: str
    rank: int
    links: tuple[Link, ...]


@dataclass(frozen=True)
class _Variable:
    name: str
    code: CodeType
    line: int
    thread: str

    def root(self) -> Root:
        """The variable as a beginning; finding its line is left until somebody asks."""
        site = frames.binding(self.code, self.name, self.line)
        thread = (Link(f"thread {self.thread}", "thread"),) if self.thread else ()
        return Root("local", self.rank, (*thread, Link(self.name, "local", site)))

    @property
    def rank(self) -> int:
        """Whose variable it is."""
        return 2 if frames.is_own(self.code) else 0 if sites.is_user(self.code.co_filename) else 1


@dataclass(frozen=True)
class _Space:
    """A namespace: a module's, or that of a class body being executed."""

    module: str
    file: str | None
    function: str = ""

    @property
    def rank(self) -> int:
        """Whose namespace it is."""
        if self.module == "tenure" or self.module.startswith("tenure."):
            return 2
        return 0 if self.module == "__main__" or (self.file is not None and sites.is_user(self.file)) else 1

    def root(self, name: str) -> Root:
        """A name of this namespace as a beginning."""
        if self.function:
            return Root("local", self.rank, (Link(name, "local", Site(self.file or "", 0, self.function)),))
        site = sources.assignment(self.file, name)
        if self.module == "sys" and name in _LAST:
            return Root("exception", 0, (Link(f"sys.{name}", "exception"),))
        shown = name if self.module in ("__main__", "builtins", "") else f"{self.module}.{name}"
        return Root("global", self.rank, (Link(shown, "global", site),))


class Roots:
    """All beginnings at one moment. Keeps what it saw alive until it is cleared, so that no id is used twice."""

    def __init__(self) -> None:
        self.keep: list[object] = []
        self.running: set[int] = set()
        self._variables: dict[int, list[_Variable]] = {}
        self._spaces: dict[int, _Space] = {}
        self._special: dict[int, Root] = {}
        self._kept: set[int] = set()
        self._modules()
        self._frames()
        self._others()

    def clear(self) -> None:
        """Let go of everything."""
        self.keep.clear()

    def rank(self, thing: object) -> int | None:
        """The best rank among the beginnings that hold `thing` itself; None if it is none."""
        ranks = [variable.rank for variable in self._variables.get(id(thing), ())]
        if id(thing) in self._special:
            ranks.append(self._special[id(thing)].rank)
        space = self._space(thing)
        if space is not None:
            ranks.append(space.rank)
        elif plain.is_a(thing, type):
            ranks.append(self._of_class(thing).rank)
        elif _is_own(thing):
            ranks.append(2)
        return min(ranks, default=None)

    def count(self, key: int) -> int:
        """How many variables of running frames, tenure's included, hold the object with this id."""
        return len(self._variables.get(key, ()))

    def has_cell(self, thing: object, cell: object) -> bool:
        """Whether `cell` is where a running function keeps a variable that is `thing`."""
        return type(cell) is CellType and any(
            variable.name in (*variable.code.co_cellvars, *variable.code.co_freevars)
            for variable in self._variables.get(id(thing), ())
        )

    def is_space(self, thing: object) -> bool:
        """Whether this is the namespace of a module or class."""
        return self._space(thing) is not None

    def variables(self, thing: object) -> Iterator[Root]:
        """Every variable, thread or handler that holds `thing` directly, each a reference of its own."""
        for variable in self._variables.get(id(thing), ()):
            if variable.rank < 2:
                yield variable.root()
        if id(thing) in self._special:
            yield self._special[id(thing)]

    def begin(self, chain: list[object]) -> tuple[Root, int]:
        """The best beginning for a path that starts at `chain[0]`, and how many of its objects that names."""
        first = chain[0]
        space = self._space(first)
        if space is not None and len(chain) > 1:
            _, key = plain.key_of(first, chain[1])
            return space.root(str(key)), 1
        held = sorted(self._variables.get(id(first), ()), key=lambda variable: (variable.rank, bool(variable.thread)))
        special = self._special.get(id(first))
        if special is not None and (not held or held[0].rank > special.rank):
            return special, int(id(first) in self._kept)
        return (held[0].root() if held else self._of_class(first)), 0

    def name(self, thing: object) -> str | None:
        """A variable or global of the user's by which `thing` is known, for naming keys."""
        for variable in self._variables.get(id(thing), ()):
            if variable.rank == 0:
                return variable.name
        for module in list(sys.modules.values()):
            space = self._spaces.get(id(plain.attributes(module)))
            if space is not None and space.rank == 0:
                found, key = plain.key_of(plain.attributes(module) or {}, thing)
                if found:
                    return str(key)
        return None

    def _modules(self) -> None:
        for name, module in sys.modules.copy().items():
            space = plain.attributes(module) if plain.is_a(module, ModuleType) else None
            if space is not None:
                file = space.get("__file__")
                self._spaces.setdefault(id(space), _Space(name, file if type(file) is str else None))

    def _frames(self) -> None:
        stacks = frames.running()
        while stacks:  # see `running`
            self._frame(*stacks.pop(0))

    def _frame(self, frame: FrameType, thread: str, mine: bool) -> None:
        self.running.add(id(frame))
        self.keep.append(frame)
        code = frame.f_code
        space: object = None if frames.is_function(code) else frame.f_locals
        if space is frame.f_globals:
            name = frame.f_globals.get("__name__")
            self._spaces.setdefault(id(space), _Space(name if type(name) is str else "", code.co_filename))
        elif plain.is_dict(space):
            self._spaces.setdefault(id(space), _Space("", code.co_filename, code.co_qualname))
            self.keep.append(space)
        elif space is None:
            for name, value in frames.variables(frame, mine=mine):
                if not plain.exactly(value, _DULL):
                    self.keep.append(value)
                    self._variables.setdefault(id(value), []).append(_Variable(name, code, frame.f_lineno, thread))

    def _others(self) -> None:
        for thread in threading.enumerate():
            name = thread.__dict__.get("_name")
            self._special[id(thread)] = Root("thread", 0, (Link(str(name), "thread"),))
        for keeper in keepers.keepers:
            for thing, links in keeper():
                self.keep.append(thing)
                self._kept.add(id(thing))
                self._special[id(thing)] = Root(links[0].kind, 0, links)
        errors: list[Any] = list(sys._current_exceptions().values())
        for error in errors:
            # Python 3.11 gives triples.
            handled: object = error[1] if plain.is_tuple(error) else error
            if handled is not None:
                self.keep.append(handled)
                self._special[id(handled)] = Root("exception", 0, (Link("being handled", "exception"),))
        shell = self._shell()
        if shell is not None:
            self._spaces[id(shell)] = _Space("__main__", None)

    def _shell(self) -> object:
        """IPython's namespace, where `Out`, `_` and `_3` live."""
        if "IPython" not in sys.modules:
            return None
        get = vars(builtins).get("get_ipython") or getattr(sys.modules["IPython"], "get_ipython", None)
        return getattr(get(), "user_ns", None) if get is not None else None

    def _space(self, thing: object) -> _Space | None:
        known = self._spaces.get(id(thing))
        if known is not None or not plain.is_dict(thing):
            return known
        # The namespace of a module that nobody can import (any more): run with exec or runpy.
        name, file = thing.get("__name__"), thing.get("__file__")
        if isinstance(name, str) and "__builtins__" in thing:
            return _Space(name, file if isinstance(file, str) else None)
        return None

    def _of_class(self, kind: Any) -> Root:
        module, name = plain.module_name(kind), plain.class_name(kind)
        owner = sys.modules.get(module)
        file = (plain.attributes(owner) or {}).get("__file__") if owner is not None else None
        space = _Space(module, file if type(file) is str else None)
        shown = name if module in ("__main__", "builtins", "") else f"{module}.{name}"
        return Root("class", space.rank, (Link(shown, "class", sources.class_line(space.file, name)),))


def _is_own(thing: object) -> bool:
    """Whether this is a function or generator of tenure's."""
    code = next((name for kind, name in _CODE_OF.items() if type(thing) is kind), None)
    return code is not None and frames.is_own(getattr(thing, code))
