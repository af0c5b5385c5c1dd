"""Following a program without running it: frames, the heap and its journal, loops, and what was seen on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tenure.check.modules import Module
from tenure.check.values import (
    NONE,
    Class,
    Const,
    Func,
    Maybe,
    Node,
    Obj,
    Ref,
    Seq,
    Spot,
    Storage,
    Tensor,
    Value,
    join,
)  # fmt: skip

MISSING = Const("missing")
DEPTH = 14  # calls into calls
# How a block ended.
ON, RETURNED, RAISED, BROKE, CONTINUED = range(5)


class OutOfSteps(Exception):
    """The program is too large to be followed further: what was seen so far stands."""


@dataclass(slots=True)
class Fact:
    """Something that was seen. Rules look for `kind` and tell it with `spots` (by role) and `data`."""

    kind: str
    spots: list[tuple[str, Spot]]
    data: dict[str, Any] = field(default_factory=dict)


class Frame:
    """A running function: its names, where it was defined, and what it has returned or yielded."""

    __slots__ = ("function", "globals", "module", "names", "node", "nonlocals", "outer", "returned", "yielded")

    def __init__(self, module: Module, function: str, outer: Frame | None, names: dict[str, Value]) -> None:
        self.module = module
        self.function = function
        self.outer = outer
        self.names = names
        self.node: ast.AST | None = None
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.returned: Value | None = None
        self.yielded: Value | None = None


@dataclass(slots=True, eq=False)
class Trace:
    """A function being traced: what is born in it is symbolic until it ends."""

    kind: str  # "function", "control flow", "wrapper", "keras"
    how: str  # the name of the transformation, as the user wrote it
    framework: str
    spot: Spot
    concrete: bool = False  # values can be read as numbers (jax.grad without jit)
    writes: list[tuple[dict[Any, Any] | list[Value], Any, Value, Spot, Value]] = field(default_factory=list)
    ended: bool = False
    native: bool = False  # certain to be traced whoever calls


@dataclass(slots=True)
class Loop:
    """A loop being followed, and its turn."""

    uid: int
    node: ast.AST
    turn: int = 0
    kind: str = "python"
    function: str = ""


class Machine:
    """Follows one program: a module and what it calls."""

    def __init__(self, steps: int, loader: Any = None) -> None:
        self.steps = steps
        self.loader = loader
        self.frame: Frame = None  # type: ignore[assignment]
        self.loops: list[Loop] = []
        self.loop_ids: tuple[int, ...] = ()
        self.traces: tuple[Trace, ...] = ()
        self.grad: list[str] = ["grad"]  # "grad", "no_grad", "inference"
        self.calls: list[Any] = []
        self.seen_functions: set[int] = set()
        self.facts: list[Fact] = []
        self.told: set[tuple[str, int, int]] = set()
        self.journals: list[dict[tuple[int, Any], tuple[Any, Any, Any]]] = []
        self.kept: list[Any] = []  # so that ids stay unique while journals hold them
        self.uid = 0
        self.clock = 0
        self.held: list[Any] = []  # candidates, judged at the end
        self.world: dict[str, Any] = {}  # what the framework models keep: graphs, sessions, hooks
        self.finishers: list[Callable[[], None]] = []
        self.depth = DEPTH
        self.main: Module | None = None  # the file that findings should stand in
        self.sites: list[Spot] = []  # where each of the running functions was called
        self.uses = 0  # how often tensors were used so far
        self.muted = 0  # how many blocks that are meant to fail lead here
        self.ifs = 0  # how many tests lead here, decided ones too
        self.conditions = 0  # how many undecided branches lead here

    # Places and facts

    def spot(self, node: ast.AST) -> Spot:
        """Where the program is."""
        return Spot(self.frame.module, node, self.frame.function)

    def tell(self, kind: str, spots: Iterable[tuple[str, Spot | None]], **data: Any) -> None:
        """Note a fact, once for each place."""
        if self.muted:
            return
        found = [(role, spot) for role, spot in spots if isinstance(spot, Spot)]
        if found[0][1].module is not self.main and (caller := self.caller()) is not None:
            found.insert(0, (found[0][0], caller))
        key = (kind, id(found[0][1].module), id(found[0][1].node))
        if key not in self.told:
            self.told.add(key)
            self.facts.append(Fact(kind, found, data))

    def caller(self) -> Spot | None:
        """The call in the main file that led here, if this is another file."""
        if self.main is None or self.frame.module is self.main:
            return None
        return next((spot for spot in reversed(self.sites) if spot.module is self.main), None)

    # Making values

    def unknown(self, node: ast.AST) -> Tensor:
        """A value of which nothing is known."""
        return self.own(Tensor(None, self.spot(node)))  # type: ignore[no-any-return]

    def own(self, made: Any) -> Any:
        """Note where in loops and traces something was made."""
        made.loops = self.loop_ids
        made.traces = self.traces
        return made

    def obj(self, kind: str, node: ast.AST, cls: Class | None = None) -> Obj:
        """A new object."""
        return self.own(Obj(cls, kind, self.spot(node)))  # type: ignore[no-any-return]

    def seq(self, kind: str, items: list[Value], node: ast.AST) -> Seq:
        """A new list, tuple or set."""
        return self.own(Seq(kind, items, self.spot(node)))  # type: ignore[no-any-return]

    def turn(self) -> tuple[tuple[int, int], ...]:
        """Which turn of which loops this is."""
        return tuple((loop.uid, loop.turn) for loop in self.loops)

    def tensor(
        self, fw: str, node: ast.AST, *, op: str = "", parents: Iterable[Tensor] = (), store: Storage | None = None,
        graph: bool | None = None, view: bool = False,
    ) -> Tensor:  # fmt: skip
        """The result of an operation."""
        spot = self.spot(node)
        made: Tensor = self.own(Tensor(fw, spot, store))
        made.view = view
        parents = list(parents)
        if (
            self.traces and fw in ("jax", "tf", "keras") and any(t.framework in (fw, "keras") for t in self.traces)
        ) or (self.traces and fw == "torch" and self.traces[-1].framework == "torch"):
            made.trace = self.traces[-1]
        for parent in parents:
            made.varies = made.varies or parent.varies
        if fw == "torch":
            carries = any(p.graph or p.leaf for p in parents) if graph is None else graph
            made.graph = carries and self.grad[-1] == "grad"
            if self.grad[-1] == "inference":
                made.flags = frozenset({"inference"})
        if made.graph or fw == "tf":
            above = tuple(p.node for p in parents if p.node is not None)
            made.node = Node(op, spot, above, self.turn())
            if self.sites:
                made.node.state["site"] = self.sites[-1]
            if fw == "tf":
                made.node.state["at"] = self.clock
            elif (thread := self.world.get("thread")) is not None:
                thread.setdefault("graph", spot)
        return made

    def conditions_on_tracing(self) -> bool:
        """Whether a test like `isinstance(x, Tracer)` or `is_compiling()` leads here."""
        return any("tracing" in marks for marks in self.world.get("guards", ()))

    # The heap

    def put(self, holder: Any, key: Any, value: Any) -> None:
        """Write to a dict of the heap, so that a branch can be taken back."""
        if self.journals:
            journal = self.journals[-1]
            where = (id(holder), key)
            if where not in journal:
                journal[where] = (holder, key, holder.get(key, MISSING))
                self.kept.append(holder)
        holder[key] = value

    def branches(self, bodies: list[Callable[[], int]], *, sure: bool = False) -> int:
        """Go several ways from here, and meet again."""
        frame = self.frame
        start = frame.names
        ways: list[tuple[int, dict[str, Value], dict[tuple[int, Any], tuple[Any, Any, Any]]]] = []
        self.conditions += not sure
        for body in bodies:
            frame.names = dict(start)
            self.journals.append({})
            how = body()
            journal = self.journals.pop()
            after: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
            for where, (holder, key, old) in journal.items():
                after[where] = (holder, key, holder.get(key, MISSING))
                if old is MISSING:
                    holder.pop(key, None)
                else:
                    holder[key] = old
            ways.append((how, frame.names, after))
        self.conditions -= not sure
        alive = [way for way in ways if way[0] == ON]
        frame.names = _meet([names for _, names, _ in (alive or ways)])
        self._merge([way[2] for way in ways if way[0] != RAISED or not alive], len(alive) or 1)
        if alive:
            return ON
        kinds = {how for how, _, _ in ways}
        return kinds.pop() if len(kinds) == 1 else max(kinds & {RETURNED, BROKE, CONTINUED} or {RAISED})

    def _merge(self, ways: list[dict[tuple[int, Any], tuple[Any, Any, Any]]], count: int) -> None:
        touched: dict[tuple[int, Any], tuple[Any, Any]] = {}
        for way in ways:
            for where, (holder, key, _) in way.items():
                touched[where] = (holder, key)
        for where, (holder, key) in touched.items():
            old = holder.get(key, MISSING)
            ends = [way[where][2] if where in way else old for way in ways]
            value = ends[0]
            for end in ends[1:]:
                value = _join_any(value, end)
            if value is not MISSING:
                self.put(holder, key, value)
            elif key in holder:
                self.put(holder, key, MISSING)
                holder.pop(key, None)

    # Names

    def lookup(self, name: str) -> Value:
        """What a name stands for here."""
        frame: Frame | None = self.frame
        if name in self.frame.globals:
            frame = None
        while frame is not None:
            found = frame.names.get(name)
            if found is not None:
                return found
            frame = frame.outer
        found = self.frame.module.names.get(name)
        return found if found is not None else Ref("builtins." + name)

    def assign(self, name: str, value: Value, spot: Spot) -> None:
        """Bind a name."""
        frame = self.frame
        if name in frame.globals:
            self.note_write(frame.module.names, name, value, spot, None)
            self.put(frame.module.names, name, value)
        elif name in frame.nonlocals:
            outer = frame.outer
            while outer is not None and name not in outer.names:
                outer = outer.outer
            if outer is not None:
                self.note_write(outer.names, name, value, spot, None)
                self.put(outer.names, name, value)
        else:
            frame.names[name] = value

    def note_write(self, holder: Any, key: Any, value: Value, spot: Spot, owner: Value | None) -> None:
        """A write to something that may outlive the traces it happens in."""
        spot = self.caller() or spot
        for trace in self.traces:
            made_in = getattr(owner, "traces", ()) if owner is not None else ()
            if trace not in made_in:
                trace.writes.append((holder, key, value, spot, owner or NONE))


def _meet(ways: list[dict[str, Value]]) -> dict[str, Value]:
    met = dict(ways[0])
    for names in ways[1:]:
        for name, value in names.items():
            have = met.get(name)
            met[name] = value if have is None else (have if have is value else join(have, value))
    return met


def _join_any(one: Any, other: Any) -> Any:
    if one is other:
        return one
    if isinstance(one, Value) and isinstance(other, Value) and MISSING not in (one, other):
        return join(one, other)
    for first, second in ((one, other), (other, one)):
        if first is MISSING or first is None:
            return second if isinstance(second, (Maybe, Value)) else Maybe(second)
    return one if isinstance(one, Maybe) else other if isinstance(other, Maybe) else one


def is_function(value: Value) -> bool:
    """Whether the checked code has its body."""
    return isinstance(value, Func)
