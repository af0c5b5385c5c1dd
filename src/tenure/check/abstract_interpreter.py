"""Following a program without running it: frames, the heap and its journal, loops, and what was seen on the way."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, overload

from tenure.check.abstract_values import (
    NONE,
    Class,
    Const,
    ContainerState,
    Ended,
    Frame,
    Framework,
    Func,
    Maybe,
    Module,
    Node,
    NodeState,
    Obj,
    ObjState,
    Ref,
    Seq,
    Spot,
    Storage,
    StorageState,
    Tensor,
    TensorState,
    Trace,
    Value,
    Wrapped,
)
from tenure.check.fact import Fact
from tenure.check.kept import Kept
from tenure.check.syntax import Loop
from tenure.check.value_queries import join, tensors
from tenure.check.world import World

MISSING = Const("missing")
DEPTH = 14  # calls into calls
# How a block ended.
ON, RETURNED, RAISED, BROKE, CONTINUED = range(5)


class OutOfSteps(Exception):
    """The program is too large to be followed further: what was seen so far stands."""


# What `as` gives, and what is to be done at the end of the block.
Entered: TypeAlias = tuple[Value, Callable[[], None] | None]


class Interpreter:
    """Follows one program: a module and what it calls. What it does with syntax and libraries is bound in `program`."""

    def __init__(self, steps: int, loader: Any = None) -> None:
        self.steps = steps
        self.loader = loader
        self.frame: Frame = None  # type: ignore[assignment]
        self.loops: list[Loop] = []
        self.loop_ids: tuple[int, ...] = ()
        self.traces: tuple[Trace, ...] = ()
        self.grad: list[str] = ["grad"]  # "grad", "no_grad", "inference"
        self.calls: list[Any] = []
        self.modules = 0  # how many of the running functions are methods of torch modules
        self.seen_functions: set[int] = set()
        self.followed: set[str] = set()  # their names
        self.facts: list[Fact] = []
        self.reported: set[tuple[type[Fact], int, int]] = set()  # by kind and place
        self.journals: list[dict[tuple[int, Any], tuple[Any, Any, Any]]] = []
        self.journaled: list[Any] = []  # so that ids stay unique while journals have them
        self.uid = 0
        self.clock = 0
        self.slots: dict[tuple[int, Any], tuple[Any, Any, Spot]] = {}
        self.kept: list[Kept] = []  # candidates, examined when the program ends
        self.world = World()
        self.finishers: list[Callable[[], None]] = []
        self.depth = DEPTH
        self.main: Module | None = None  # the file that findings should stand in
        self.sites: list[Spot] = []  # where each of the running functions was called
        self.uses = 0  # how often tensors were used so far
        self.muted = 0  # how many blocks that are meant to fail lead here
        self.ifs = 0  # how many tests lead here, decided ones too
        self.conditions = 0  # how many undecided branches lead here
        self.visited: set[int] = set()  # the names and attributes that were evaluated
        self.read_containers: list[Any] = []  # containers whose content was read

    # Python, see `language`

    def evaluate(self, node: ast.expr) -> Value:
        """The value of an expression."""
        raise NotImplementedError

    def run(self, body: Sequence[ast.stmt]) -> int:
        """Follow statements until one leaves the block; how it was left."""
        raise NotImplementedError

    def call(self, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """Call a value."""
        raise NotImplementedError

    def call_function(
        self, function: Func, args: list[Value], kwargs: dict[str, Value], node: ast.AST, *, entry: bool = False
    ) -> Value:
        """Follow a function of the checked code."""
        raise NotImplementedError

    # Libraries, see `models`

    def call_library(self, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
        """The result of calling a library's function; None if nothing is known of it."""
        raise NotImplementedError

    def call_library_object(self, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """Call an object of a library's class."""
        raise NotImplementedError

    def call_module(
        self, owner: Obj, found: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """Call a module or layer of the checked code."""
        raise NotImplementedError

    def call_wrapped(self, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """Call a function that a transformation made."""
        raise NotImplementedError

    def call_autograd_function(self, cls: Class, args: list[Value], node: ast.AST) -> Value:
        """The result of `Own.apply(…)`, of an own autograd function."""
        raise NotImplementedError

    def call_backward(self, owner: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """`owner.backward(…)`."""
        raise NotImplementedError

    def result(
        self, fw: Framework | None, inputs: list[Tensor], node: ast.AST, op: str, *, saves: str = "", store: Any = None,
        view: bool = False,
    ) -> Tensor:  # fmt: skip
        """The tensor that an operation makes of others."""
        raise NotImplementedError

    def enter_library(self, value: Obj, node: ast.expr) -> Entered | None:
        """`with value:`, of a library's object; None if nothing is known of it."""
        raise NotImplementedError

    def object_attribute(self, owner: Obj, name: str, node: ast.AST) -> Value:
        """An attribute that comes with a library's class."""
        raise NotImplementedError

    def tensor_attribute(self, owner: Tensor, name: str, node: ast.AST) -> Value | None:
        """An attribute that only one library's tensors have; None if nothing is known of it."""
        raise NotImplementedError

    def object_method(
        self, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
    ) -> Value | None:
        """A method of a library's object; None if nothing is known of it."""
        raise NotImplementedError

    def tensor_method(
        self, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
    ) -> Value:
        """A method of a tensor, or of a value that may be one."""
        raise NotImplementedError

    def function_method(
        self, owner: Func | Wrapped, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
    ) -> Value:
        """A method of a function, such as `f.lower(…)`."""
        raise NotImplementedError

    def note_temporary(self, owner: Obj, function: Wrapped, node: ast.Call | ast.Attribute) -> None:
        """`Trainer().step(x)`: a method of an object that nothing else references is called."""
        raise NotImplementedError

    # Places and facts

    def spot(self, node: ast.AST) -> Spot:
        """Where the program is."""
        return Spot(self.frame.module, node, self.frame.function)

    def add_fact(self, fact: Fact) -> None:
        """Record a fact, once for each place."""
        if self.muted:
            return
        main = fact.spots()[0][1]
        if main.module is not self.main and (caller := self.caller()) is not None:
            fact.called_from = main = caller
        key = (type(fact), id(main.module), id(main.node))
        if key not in self.reported:
            self.reported.add(key)
            self.facts.append(fact)

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
        self, fw: Framework, node: ast.AST, *, op: str = "", parents: Iterable[Tensor] = (), store: Storage | None = None,
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
            made.trace = self.traces[-1] if fw != "jax" else self.trace_of(parents)
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
            if (begun := self.world.running_pass) is not None:
                begun.nodes.append(made.node)
            if self.sites:
                made.node.state.site = self.sites[-1]
            if fw == "tf":
                made.node.state.at = self.clock
            elif (thread := self.world.thread) is not None:
                thread.graph = thread.graph or spot
        return made

    def trace_of(self, values: Iterable[Tensor]) -> Trace | None:
        """The JAX trace that an operation on these values belongs to.

        A staged trace takes up all operations; one that differentiates or maps takes up what depends on its arguments.
        """
        known = {id(trace) for one in values for trace in (one.trace, one.state.depends)}
        return next(
            (
                trace
                for trace in reversed(self.traces)
                if trace.framework == "jax" and (not trace.lifts or id(trace) in known)
            ),
            None,
        )

    def unknown_of(self, values: Iterable[Any], node: ast.AST) -> Tensor:
        """A value of which only this is known: the traced values that it was made of."""
        made = self.unknown(node)
        if self.traces and (trace := self.trace_of(one for value in values for one in tensors(value))) is not None:
            made.state.depends = trace
        return made

    def conditions_on_tracing(self) -> bool:
        """Whether a test like `isinstance(x, Tracer)` or `is_compiling()` leads here."""
        return any("tracing" in marks for marks in self.world.guards)

    # The heap

    def put(self, holder: Any, key: Any, value: Any) -> None:
        """Write to a dict of the heap, so that a branch can be taken back."""
        if self.journals:
            journal = self.journals[-1]
            where = (id(holder), key)
            if where not in journal:
                journal[where] = (holder, key, holder.get(key, MISSING))
                self.journaled.append(holder)
        holder[key] = value

    @overload
    def set_state(
        self, state: TensorState, name: Literal["grad_value", "released", "reset"], value: Value | Ended | Spot | None
    ) -> None: ...

    @overload
    def set_state(
        self, state: StorageState, name: Literal["ended", "written"], value: Ended | Maybe | Spot | None
    ) -> None: ...

    @overload
    def set_state(
        self,
        state: NodeState,
        name: Literal["differentiated", "freed", "retained", "spoiled"],
        value: Spot | Maybe,
    ) -> None: ...

    @overload
    def set_state(self, state: ContainerState, name: Literal["bounded", "loaded"], value: bool | Spot) -> None: ...

    @overload
    def set_state(
        self,
        state: ObjState,
        name: Literal[
            "closed", "emptied", "frozen", "grads_reset", "removed", "stale", "training", "used", "zeroed_at"
        ],
        value: bool | Spot | Ended | Maybe | tuple[Spot, Value] | tuple[int, Spot] | None,
    ) -> None: ...

    def set_state(self, state: object, name: str, value: object) -> None:
        """Set a field of a state, so that a branch can be taken back. An unset field is one that is not there."""
        self.put(vars(state), name, value)

    def branches(self, bodies: list[Callable[[], int]], *, sure: bool = False, often: bool = False) -> int:
        """Go several ways from here, and meet again. `often`: one of them is taken every few iterations."""
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
        self._merge([way[2] for way in ways if way[0] != RAISED or not alive], len(alive) or 1, often=often)
        if alive:
            return ON
        kinds = {how for how, _, _ in ways}
        return kinds.pop() if len(kinds) == 1 else max(kinds & {RETURNED, BROKE, CONTINUED} or {RAISED})

    def _merge(self, ways: list[dict[tuple[int, Any], tuple[Any, Any, Any]]], count: int, *, often: bool) -> None:
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
            if often and isinstance(value, Maybe):
                value = Maybe(value.spot, often=True)
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
        if found is None and self.frame.module.stars and not hasattr(builtins, name):
            found = self._starred(name)
        return found if found is not None else Ref("builtins." + name)

    def _starred(self, name: str) -> Value | None:
        """A name of a file that this one imports all names of; `torch` is torch wherever it comes from."""
        for home, level in reversed(self.frame.module.stars) if self.loader is not None else ():
            module: Module | None = self.loader(home, level, self.frame.module, near=True) if home else None
            if module is not None and name in module.names:
                return module.names[name]
        return Ref(name) if name == "torch" else None

    def assign(self, name: str, value: Value, spot: Spot) -> None:
        """Bind a name."""
        frame = self.frame
        if name in frame.globals:
            self.note_write(frame.module.names, name, value, spot, None)
            self.note_slot(frame.module.names, name, spot)
            self.put(frame.module.names, name, value)
        elif name in frame.nonlocals:
            outer = frame.outer
            while outer is not None and name not in outer.names:
                outer = outer.outer
            if outer is not None:
                self.note_write(outer.names, name, value, spot, None)
                self.note_slot(outer.names, name, spot)
                self.put(outer.names, name, value)
        else:
            frame.names[name] = value

    def note_slot(self, holder: Any, key: Any, spot: Spot) -> None:
        """A write to a place that may carry something into the next iteration of a loop."""
        if self.loops:
            self.slots[id(holder), key] = (holder, key, spot)

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
