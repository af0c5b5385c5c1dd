"""What the check knows of a value while it follows a program: numbers, tensors, objects, containers, functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from tenure.check.library_calls import LIFTING, family_of
from tenure.check.source_file import SourceFile

Framework: TypeAlias = Literal["torch", "tf", "jax", "np", "keras"]
Cause: TypeAlias = Literal["deleted", "donated", "emptied", "released"]  # how the bytes of a tensor ended


class Module(SourceFile):
    """A file that is followed. `names` are filled on the way."""

    def __init__(self, file: str, text: str, tree: ast.Module) -> None:
        super().__init__(file, text, tree)
        self.frame: Frame | None = None
        self.stars: list[tuple[str, int]] = []  # the modules that it imports all names of, and their level

    @property
    def names(self) -> dict[str, Value]:
        """The names at its top level, as far as it was followed."""
        return self.frame.names if self.frame is not None else {}


@dataclass(slots=True, eq=False)
class Spot:
    """A piece of source and the function it stands in."""

    module: Module
    node: ast.AST
    function: str

    @property
    def line(self) -> int:
        """The line, from 1."""
        return int(getattr(self.node, "lineno", 1))


@dataclass(frozen=True, slots=True)
class Maybe:
    """Something that happened on one way through the program and not on another."""

    spot: Any
    often: bool = False  # on the way that every few iterations take


class State:
    """What is known of a value besides its content. A field that was never set has the default of its class."""

    escaped: bool = False  # code that was not followed may use it
    returned: bool = False


class ContainerState(State):
    """What is known of a list, tuple, set or dict."""

    origin: Seq | Map | None = None  # the one that this is another instance of
    of: Any = None  # the module whose parameters these are
    parameter: Tensor | None = None
    modules: bool = False  # it is a list of modules
    alias_of: Value | None = None  # whose weights these are
    loaded: Spot | Maybe | None = None
    loaded_at: int = 0
    bounded: bool | Maybe | None = None
    grown: bool = False
    lengthens: bool = False  # it was joined with a list that the loop makes longer
    counted: bool = False
    tested: bool = False
    keys: tuple[Any, ...] = ()  # the shapes of keys that were written
    key: Value | None = None  # of `rest`
    attributes: frozenset[str] = frozenset()  # the names of those that it is
    drained: bool | str = False  # or the kind of the hook that did it
    drained_in: Trace | None = None
    replaced: bool = False  # its name was bound to something else after the loop
    read: bool = False
    seen: bool = False
    walked: bool = False
    fields_read: frozenset[Any] = frozenset()
    # Generators and ranges
    yielded: bool = False
    ended: bool = False
    comprehension: bool = False
    frame_tensors: tuple[Tensor, ...] = ()
    range: list[Value] | None = None
    zip: str = ""

    def copy_from(self, other: ContainerState) -> None:
        """Take over all that was set on another container."""
        vars(self).update(vars(other))


class ObjState(State):
    """What is known of an object: first of any, then by what it is."""

    stored: bool = False
    sample: bool = False  # constructed to follow a method that nothing calls
    written: Mapping[str, Spot] = MappingProxyType({})  # where attributes were assigned
    # Modules and layers
    parameter: Tensor | None = None
    grads_reset: Spot | Maybe | None = None
    frozen: bool | Maybe | None = None
    training: bool | Maybe | None = None
    inplace: bool = False
    hooks: tuple[tuple[Value, Obj, str], ...] = ()
    emptied: Ended | Maybe | None = None  # the storages of its weights
    compiled: Sequence[Value] = ()
    eager: bool = False  # also of an initializer
    driven: bool = False
    new_in_trace: bool = False
    # Optimizers
    modules: Sequence[Any] = ()
    tensors: Sequence[Tensor] = ()
    stepped_in_loop: Spot | None = None
    zeroed_at: tuple[int, Spot] | Maybe | None = None
    stale: tuple[Spot, Any] | Maybe | None = None
    # Sessions, graphs, tapes and datasets of TensorFlow
    graph: Obj | None = None
    given: bool = False
    home: Obj | None = None
    session: Obj | None = None
    ready: Sequence[Any] = ()
    closed: Spot | Maybe | None = None
    restored: bool = False
    ran_unknown: bool = False
    as_default: bool = False
    variables: Sequence[Tensor] = ()
    iterators: Sequence[Obj] = ()
    name: str | None = None
    reuse: str | None = None
    persistent: bool = False
    used: Spot | Maybe | None = None
    closed_at: int | None = None
    write_of: Obj | None = None
    elements: Value | None = None
    # What the other kinds carry
    args: Sequence[Value] = ()
    default: Value | None = None
    drop: int = 0
    factory: Value | None = None
    function: Value | None = None
    inputs: Sequence[Tensor] = ()
    keeps_tensors: bool = False
    maxsize: Any = None
    mode: str = ""
    removed: Spot | Maybe | None = None
    saved: Sequence[Value] = ()
    store: Storage | None = None
    target: Value | None = None
    tensor: Tensor | None = None
    with_state: bool = False
    workers: bool = False
    before: str | None = None  # the grad mode that set_grad_enabled() changed
    reads: list[Any] | None = None  # of a tensor array whose reads clear what they read
    created: Sequence[Value] = ()  # variables of an optimizer of TensorFlow 1


class WrappedState(State):
    """What is known of a function that a transformation made."""

    memo: list[tuple[Any, Value, Trace | None]] | None = None  # results that a cache keeps
    cleared: bool = False
    orphan: tuple[Spot, Spot] | None = None
    made_once: bool = False  # where the program asked first whether it is there: `if n not in compiled`


class StorageState:
    """State of the bytes of tensors: when and how they were freed, and what wrote to them last."""

    ended: Ended | Maybe | None = None
    shared: Spot | None = None
    expanded: Spot | None = None
    written: Spot | Maybe | None = None
    written_at: int = 0
    written_in: tuple[int, ...] = ()
    savers: list[Node] | None = None


class NodeState:
    """What is known of a step of a graph."""

    unknown: bool = False
    root: bool = False
    differentiated: Spot | Maybe | None = None
    freed: Spot | Maybe | None = None
    freed_in: tuple[int, ...] = ()
    retained: Spot | Maybe | None = None
    spoiled: Spot | Maybe | None = None
    escaped: bool = False
    joined: bool = False  # with a step whose graph was freed before
    alternatives: tuple[
        Node, ...
    ] = ()  # steps of which only one is followed, so what is done with it may be done with this
    contained: bool = False
    cut: bool | str = False  # its result was detached; "at once": where it was computed
    reported: bool = False
    site: Spot | None = None
    compiled: Spot | None = None
    # TensorFlow
    variable: bool = False
    at: int = 0
    assigns: Tensor | None = None
    iterator: Obj | None = None


class TensorState(State):
    """What is known of a tensor."""

    origin: Tensor | None = None  # the one that this is another instance of
    used: int = 0  # when it was last used
    taken: bool = False
    kept: bool = False
    written: Spot | None = None
    released: Ended | Maybe | None = None
    alternative: bool = False  # one of several that cannot be distinguished
    depends: Trace | None = None  # the trace of what it was computed from
    # Views
    base: Tensor | None = None
    small: bool = False
    rows: int | None = None
    mask: bool = False
    device: Value | None = None  # what `.to()` was given
    evaluated: bool = False  # `eval()` was called on it: it is probably a model
    several: bool = False
    owner: Obj | None = None  # the module of a parameter
    of_leaf: bool = False
    asked: Spot | None = None
    retains: bool = False
    reset: Spot | Maybe | None = None
    grad_value: Value | None = None
    unfilled: Tensor | None = None
    no_grad_at_store: bool = False


@dataclass(frozen=True)
class Options:
    """How a transformation was called: traced functions first, then partial, caches, grad modes and `apply`."""

    name: str = ""
    framework: Framework = "jax"
    kind: str = ""
    concrete: bool = False
    pair: bool = False
    gradient: bool = False
    aux: bool = False
    arrays: bool = False
    static: tuple[int, ...] = ()
    static_names: tuple[str, ...] = ()
    donate: tuple[int, ...] = ()
    donate_names: tuple[str, ...] = ()
    signature: bool = False
    relaxed: bool = False
    ahead: bool = False
    entry: bool = False
    unbound: bool = False
    args: Sequence[Value] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    maxsize: Any = 128
    mode: str = ""
    drop: int = 0
    part: bool = False
    init: bool = False
    module: Obj | None = None


class Value:
    """Anything an expression can be."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Const(Value):
    """A constant whose value is known."""

    value: Any


@dataclass(slots=True, eq=False, kw_only=True)
class Num(Value):
    """A plain Python value (number, text, shape) of which only this is known: whether it differs from turn to turn."""

    varies: bool = False
    of: Value | None = None  # the tensor whose address or id this is, or the range that it counts through


@dataclass(slots=True, eq=False)
class Ref(Value):
    """Something imported, by its qualified name."""

    name: str


@dataclass(slots=True, eq=False)
class Func(Value):
    """A function of the checked code, or a lambda, with the frame it was made in."""

    node: Any
    frame: Frame | None
    module: Module
    born: Spot
    bound: Value | None = field(default=None, init=False)
    cls: Class | None = field(default=None, init=False)
    defaults: dict[str, Value] = field(default_factory=dict, init=False)
    loops: tuple[int, ...] = field(default=(), init=False)
    traces: tuple[Trace, ...] = field(default=(), init=False)

    @property
    def name(self) -> str:
        """Its name, or `<lambda>`."""
        return str(getattr(self.node, "name", "<lambda>"))

    def bind(self, owner: Value) -> Func:
        """The method of an object."""
        made = Func(self.node, self.frame, self.module, self.born)
        made.bound, made.cls, made.defaults = owner, self.cls, self.defaults
        made.loops, made.traces = self.loops, self.traces
        return made


@dataclass(slots=True, eq=False)
class Wrapped(Value):
    """A function that a transformation made of another: `jit(f)`, `tf.function(f)`, `lru_cache(f)`, `partial(f, …)`."""

    kind: str
    inner: Value
    born: Spot
    options: Options = field(default_factory=Options)
    loops: tuple[int, ...] = field(default=(), init=False)
    traces: tuple[Trace, ...] = field(default=(), init=False)
    state: WrappedState = field(default_factory=WrappedState, init=False)


class Class(Value):
    """A class of the checked code."""

    __slots__ = ("attrs", "bases", "family", "module", "name", "node")

    def __init__(self, node: ast.ClassDef, bases: list[Value], module: Module) -> None:
        self.node = node
        self.name = node.name
        self.bases = bases
        self.module = module
        self.attrs: dict[str, Value] = {}
        self.family = ""
        for base in bases:
            if isinstance(base, Class):
                self.family = self.family or base.family
            elif isinstance(base, Ref):
                self.family = self.family or family_of(base.name)

    def find(self, name: str) -> Value | None:
        """The attribute of the class or its bases."""
        found = self.attrs.get(name)
        if found is not None:
            return found
        for base in self.bases:
            if isinstance(base, Class) and base is not self and (found := base.find(name)) is not None:
                return found
        return None


@dataclass(slots=True, eq=False)
class Obj(Value):
    """An object: of a class of the checked code, or of the framework's class `kind`."""

    cls: Class | None
    kind: str
    born: Spot
    attrs: dict[str, Value] = field(default_factory=dict, init=False)
    state: ObjState = field(default_factory=ObjState, init=False)
    loops: tuple[int, ...] = field(default=(), init=False)
    traces: tuple[Trace, ...] = field(default=(), init=False)

    @property
    def family(self) -> str:
        """The kind of framework class it is."""
        return self.cls.family if self.cls else family_of(self.kind)


@dataclass(slots=True, eq=False)
class Seq(Value):
    """A list, tuple, set or deque. `items` are those known one by one, `rest` stands for all others."""

    kind: str
    items: list[Value]
    born: Spot
    rest: Value | None = field(default=None, init=False)
    loops: tuple[int, ...] = field(default=(), init=False)
    traces: tuple[Trace, ...] = field(default=(), init=False)
    state: ContainerState = field(default_factory=ContainerState, init=False)


@dataclass(slots=True, eq=False)
class Map(Value):
    """A dict: `attrs` by constant key, `rest` for the values under all other keys."""

    born: Spot
    attrs: dict[Any, Value] = field(default_factory=dict, init=False)
    rest: Value | None = field(default=None, init=False)
    loops: tuple[int, ...] = field(default=(), init=False)
    traces: tuple[Trace, ...] = field(default=(), init=False)
    state: ContainerState = field(default_factory=ContainerState, init=False)


@dataclass(slots=True, eq=False)
class Storage:
    """The bytes behind tensors and arrays; `state` has when and how they were freed, and what wrote to them last."""

    born: Spot
    state: StorageState = field(default_factory=StorageState, init=False)


@dataclass(slots=True, eq=False)
class Node:
    """A step of an autograd graph (or of a TensorFlow graph): what it came from and what it saved."""

    op: str
    born: Spot
    parents: tuple[Node, ...]
    turn: tuple[tuple[int, int], ...]  # the loops it was created in, and the iteration of each
    saves: bool = field(default=False, init=False)
    saved: tuple[Storage, ...] = field(default=(), init=False)
    state: NodeState = field(default_factory=NodeState, init=False)


class Tensor(Value):
    """A tensor or array of framework `fw`; with `fw` None, a value of which nothing is known (yet)."""

    __slots__ = (
        "born", "flags", "fw", "graph", "leaf", "loops", "node", "place", "state", "store", "trace", "traces", "varies", "view",
    )  # fmt: skip

    def __init__(self, fw: Framework | None, born: Spot, store: Storage | None = None) -> None:
        self.fw = fw
        self.born = born
        self.store = store or Storage(born)
        self.graph = False  # carries an autograd graph
        self.leaf = False  # asked for a gradient
        self.node: Node | None = None
        self.trace: Trace | None = None
        self.view = False  # a part of a larger buffer
        self.varies = False  # its shape differs from turn to turn
        self.flags: frozenset[str] = frozenset()
        self.place: Any = None  # TensorFlow's graph
        self.loops: tuple[int, ...] = ()
        self.traces: tuple[Trace, ...] = ()
        self.state = TensorState()


@dataclass(slots=True, eq=False)
class Either(Value):
    """One of several, as branches left it."""

    options: tuple[Value, ...]


@dataclass(slots=True, eq=False)
class Frame:
    """A running function: its names, where it was defined, and what it has returned or yielded."""

    module: Module
    function: str
    outer: Frame | None
    names: dict[str, Value]
    node: ast.AST | None = None
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    returned: Value | None = None
    yielded: Value | None = None


@dataclass(slots=True, eq=False)
class Trace:
    """A function being traced: what is born in it is symbolic until it ends."""

    kind: str  # "function", "control flow", "wrapper", "keras"
    how: str  # the name of the transformation, as the user wrote it
    framework: Framework
    spot: Spot
    concrete: bool = False  # values can be read as numbers (jax.grad without jit)
    sure: bool = True  # it is known which arguments it takes for symbols
    writes: list[tuple[dict[Any, Any] | list[Value], Any, Value, Spot, Value]] = field(default_factory=list)
    ended: bool = False
    code: ast.AST | None = None  # the function that is traced, once for each of its traces

    @property
    def lifts(self) -> bool:
        """Whether it takes up only the operations that depend on its arguments, as differentiation and `vmap` do."""
        return self.framework == "jax" and self.how.rpartition(".")[2] in LIFTING


Ended: TypeAlias = tuple[Cause, Spot, Value]  # how the bytes ended, where, and of which tensor
NONE = Const(None)
