"""What the check knows of a value while it follows a program: numbers, tensors, objects, containers, functions."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.check.modules import Module


class Spot:
    """A piece of source and the function it stands in."""

    __slots__ = ("function", "module", "node")

    def __init__(self, module: Module, node: ast.AST, function: str) -> None:
        self.module = module
        self.node = node
        self.function = function

    @property
    def line(self) -> int:
        """The line, from 1."""
        return int(getattr(self.node, "lineno", 1))


@dataclass(frozen=True, slots=True)
class Maybe:
    """Something that happened on one way through the program and not on another."""

    spot: Any


class Value:
    """Anything an expression can be."""

    __slots__ = ()


class Const(Value):
    """A constant whose value is known."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Num(Value):
    """A plain Python value (number, text, shape) of which only this is known: whether it differs from turn to turn."""

    __slots__ = ("of", "varies")

    def __init__(self, *, varies: bool = False, of: Value | None = None) -> None:
        self.varies = varies
        self.of = of  # the tensor whose address or id this is


class Ref(Value):
    """Something imported, by its qualified name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Func(Value):
    """A function of the checked code, or a lambda, with the frame it was made in."""

    __slots__ = ("born", "bound", "cls", "defaults", "frame", "loops", "module", "node", "traces")

    def __init__(self, node: Any, frame: Any, module: Module, born: Spot) -> None:
        self.node = node
        self.frame = frame
        self.module = module
        self.born = born
        self.bound: Value | None = None
        self.cls: Class | None = None
        self.defaults: dict[str, Value] = {}
        self.loops: tuple[int, ...] = ()
        self.traces: tuple[Any, ...] = ()

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


class Wrapped(Value):
    """A function that a transformation made of another: `jit(f)`, `tf.function(f)`, `lru_cache(f)`, `partial(f, …)`."""

    __slots__ = ("born", "inner", "kind", "loops", "options", "state", "traces")

    def __init__(self, kind: str, inner: Value, born: Spot, options: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.inner = inner
        self.born = born
        self.options = options or {}
        self.loops: tuple[int, ...] = ()
        self.traces: tuple[Any, ...] = ()
        self.state: dict[str, Any] = {}


class Class(Value):
    """A class of the checked code."""

    __slots__ = ("attrs", "bases", "family", "module", "name", "node", "sample")

    def __init__(self, node: ast.ClassDef, bases: list[Value], module: Module) -> None:
        self.node = node
        self.name = node.name
        self.bases = bases
        self.module = module
        self.attrs: dict[str, Value] = {}
        self.sample: Obj | None = None
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


def family_of(name: str) -> str:
    """What kind of framework class `name` is, as far as lifetimes care."""
    last = name.rpartition(".")[2]
    if name.startswith("torch."):
        if last == "Function" and "autograd" in name:
            return "torch.Function"
        if ".nn." in name and last[:1].isupper() and last not in ("Parameter", "Buffer"):
            return "torch.Module"
        return "torch.Dataset" if last.endswith("Dataset") else ""
    if name.startswith(("pytorch_lightning.", "lightning.")) and last == "LightningModule":
        return "torch.Module"
    if name.startswith(("keras.", "tensorflow.")):
        if last == "Layer" or (".layers." in name and last[:1].isupper()):
            return "keras.Layer"
        if last in ("Model", "Sequential") and ("keras" in name):
            return "keras.Model"
        if name == "tensorflow.Module":
            return "tf.Module"
    if last == "Thread":
        return "Thread"
    return ""


class Obj(Value):
    """An object: of a class of the checked code, or of the framework's class `kind`."""

    __slots__ = ("attrs", "born", "cls", "kind", "loops", "state", "traces")

    def __init__(self, cls: Class | None, kind: str, born: Spot) -> None:
        self.cls = cls
        self.kind = kind
        self.born = born
        self.attrs: dict[str, Value] = {}
        self.state: dict[str, Any] = {}
        self.loops: tuple[int, ...] = ()
        self.traces: tuple[Any, ...] = ()

    @property
    def family(self) -> str:
        """The kind of framework class it is."""
        return self.cls.family if self.cls else family_of(self.kind)


class Seq(Value):
    """A list, tuple, set or deque. `items` are those known one by one, `rest` stands for all others."""

    __slots__ = ("born", "items", "kind", "loops", "rest", "state", "traces")

    def __init__(self, kind: str, items: list[Value], born: Spot) -> None:
        self.kind = kind
        self.items = items
        self.rest: Value | None = None
        self.born = born
        self.loops: tuple[int, ...] = ()
        self.traces: tuple[Any, ...] = ()
        self.state: dict[str, Any] = {}


class Map(Value):
    """A dict: `attrs` by constant key, `rest` for the values under all other keys."""

    __slots__ = ("attrs", "born", "loops", "rest", "state", "traces")

    def __init__(self, born: Spot) -> None:
        self.attrs: dict[Any, Value] = {}
        self.rest: Value | None = None
        self.born = born
        self.loops: tuple[int, ...] = ()
        self.traces: tuple[Any, ...] = ()
        self.state: dict[str, Any] = {}


class Storage:
    """The bytes behind tensors and arrays; `state` tells when and how they ended, and who wrote to them last."""

    __slots__ = ("born", "state")

    def __init__(self, born: Spot) -> None:
        self.born = born
        self.state: dict[str, Any] = {}


class Node:
    """A step of an autograd graph (or of a TensorFlow graph): what it came from and what it saved."""

    __slots__ = ("born", "op", "parents", "saved", "saves", "state", "turn")

    def __init__(self, op: str, born: Spot, parents: tuple[Node, ...], turn: tuple[tuple[int, int], ...]) -> None:
        self.op = op
        self.born = born
        self.parents = parents
        self.turn = turn  # the loops it was made in, and the turn of each
        self.saves = False
        self.saved: tuple[Any, ...] = ()
        self.state: dict[str, Any] = {}


class Tensor(Value):
    """A tensor or array of framework `fw`; with `fw` None, a value of which nothing is known (yet)."""

    __slots__ = (
        "born", "flags", "fw", "graph", "leaf", "loops", "node", "place", "state", "store", "trace", "traces", "varies", "view",
    )  # fmt: skip

    def __init__(self, fw: str | None, born: Spot, store: Storage | None = None) -> None:
        self.fw = fw
        self.born = born
        self.store = store or Storage(born)
        self.graph = False  # carries an autograd graph
        self.leaf = False  # asked for a gradient
        self.node: Node | None = None
        self.trace: Any = None
        self.view = False  # a part of a larger buffer
        self.varies = False  # its shape differs from turn to turn
        self.flags: frozenset[str] = frozenset()
        self.place: Any = None  # TensorFlow's graph
        self.loops: tuple[int, ...] = ()
        self.traces: tuple[Any, ...] = ()
        self.state: dict[str, Any] = {}


class Either(Value):
    """One of several, as branches left it."""

    __slots__ = ("options",)

    def __init__(self, options: tuple[Value, ...]) -> None:
        self.options = options


NONE = Const(None)
_RANK = (Obj, Wrapped, Func, Tensor, Seq, Map, Class, Ref, Num, Const)


def options(value: Value) -> tuple[Value, ...]:
    """What a value can be."""
    return value.options if isinstance(value, Either) else (value,)


def best(value: Value) -> Value:
    """Of several things that a value can be, the one most is known of."""
    if not isinstance(value, Either):
        return value
    for kind in _RANK:
        for option in value.options:
            known = not isinstance(option, Tensor) or option.fw is not None
            if type(option) is kind and known:
                return option
    return value.options[0]


def is_unknown(value: Value) -> bool:
    """Whether nothing at all is known."""
    return type(value) is Tensor and value.fw is None and not value.graph


def join(one: Value, other: Value) -> Value:
    """What a name is after two ways through the program met."""
    if one is other:
        return one
    if isinstance(one, Const) and isinstance(other, Const):
        if one.value == other.value and type(one.value) is type(other.value):
            return one
        if one.value is not None and other.value is not None:
            return Num(varies=False)
    if isinstance(one, (Num, Const)) and isinstance(other, (Num, Const)):
        numbers = [v for v in (one, other) if isinstance(v, Num)]
        if all(not (isinstance(v, Const) and v.value is None) for v in (one, other)):
            return Num(varies=any(n.varies for n in numbers))
    found: list[Value] = []
    for option in (*options(one), *options(other)):
        if not any(option is have or _same(option, have) for have in found):
            found.append(option)
    return found[0] if len(found) == 1 else Either(tuple(found[:6]))


def _same(one: Value, other: Value) -> bool:
    if isinstance(one, Const) and isinstance(other, Const):
        return type(one.value) is type(other.value) and bool(one.value == other.value)
    if isinstance(one, Ref) and isinstance(other, Ref):
        return one.name == other.name
    return isinstance(one, Num) and isinstance(other, Num) and one.varies == other.varies and one.of is other.of


def inside(value: Value, limit: int = 40) -> list[Value]:
    """The value, and what lies in it if it is a container, not deeper than makes sense."""
    found: list[Value] = []
    waiting, seen = [value], set()
    while waiting and len(found) < limit:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        found.append(one)
        if isinstance(one, Either):
            waiting.extend(one.options)
        elif isinstance(one, Seq):
            waiting.extend(one.items)
            if one.rest is not None:
                waiting.append(one.rest)
        elif isinstance(one, Map):
            waiting.extend(one.attrs.values())
            if one.rest is not None:
                waiting.append(one.rest)
    return found


def read(container: Value) -> None:
    """Somebody looks at what is in a container, and in those that are in it."""
    for one in inside(container):
        if isinstance(one, (Seq, Map)):
            one.state["read"] = True


def tensors(value: Value) -> list[Tensor]:
    """The tensors in a value, unknown ones among them."""
    return [one for one in inside(value) if type(one) is Tensor]
