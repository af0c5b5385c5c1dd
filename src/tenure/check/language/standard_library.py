"""NumPy and the parts of the standard library that hold, copy or share tensors."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tenure.check import facts, syntax
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import (
    NONE,
    Class,
    Const,
    Func,
    Map,
    Num,
    Obj,
    Options,
    Ref,
    Seq,
    Storage,
    Tensor,
    Value,
    Wrapped,
)
from tenure.check.language import iteration, processes
from tenure.check.library_calls import effect
from tenure.check.lifetimes import copies, escapes, graphs, random_numbers, retention, retracing, storages, uses
from tenure.check.value_queries import best, inside, tensors
from tenure.check.world import Thread

_NEW_ARRAYS = frozenset(
    [
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "linspace",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "eye",
        "random",
    ]
)

_ABOUT = frozenset(
    [
        "result_type",
        "shape",
        "ndim",
        "size",
        "issubdtype",
        "can_cast",
        "isscalar",
        "iinfo",
        "finfo",
        "dtype",
        "promote_types",
        "broadcast_shapes",
    ]
)


def call(m: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """A call of NumPy or the standard library; None if nothing is known of it."""
    head, _, last = name.rpartition(".")
    if name.startswith("numpy."):
        return _numpy(m, head, last, args, kwargs, node)
    found = _CALLS.get(name)
    if found is not None:
        made: Value = found(m, args, kwargs, node)
        return made
    if head in ("multiprocessing", "multiprocessing.pool", "concurrent.futures"):
        return processes.made(m, name.partition("multiprocessing.")[2] or last, kwargs, node)
    if name.startswith("math."):
        for one in args:
            uses.read_as_number(m, one, node, name)
        rounds = last in ("ceil", "floor", "log2", "log", "trunc")  # to few sizes, as a rule
        return Num(varies=not rounds and any(isinstance(a, Num) and a.varies for a in args))
    if name.startswith("tenure."):
        return _tenure(m, last, args, kwargs, node)
    if name in ("random.randint", "random.randrange"):
        return random_numbers.integer(m, args)
    if name.startswith(("time.", "os.", "random.", "json.", "logging.", "warnings.", "pathlib.", "sys.")):
        return Num()
    return None


def _elements(value: Value) -> list[Value]:
    """What NumPy reads of an argument: a list and what is in it, but a dict only as one object."""
    one = best(value)
    return [part for item in one.items for part in _elements(item)] if isinstance(one, Seq) else [one]


def _numpy(m: Interpreter, head: str, last: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if last in _ABOUT:
        return Num()
    given = [one for value in args for one in _elements(value)]
    of_jax = [one for one in map(best, args[:1]) if isinstance(one, Tensor) and one.fw == "jax"]
    if of_jax and head == "numpy" and effect(f"numpy.{last}")[0] == "method":
        uses.use(m, of_jax[0], node)
        return m.tensor("jax", node, parents=of_jax)
    for one in given:
        if isinstance(one, Tensor):
            if "keras" in one.flags:
                m.add_fact(facts.KerasSymbolic(use=m.spot(node), birth=one.born, how=f"np.{last}"))
            uses.read_as_number(m, one, node, f"np.{last}")
    if last == "copyto" and args:
        for one in tensors(args[0]):
            graphs.written(m, one.store, m.spot(node))
        return NONE
    if last in ("asarray", "frombuffer", "from_dlpack", "ascontiguousarray") and args:
        source = best(args[0])
        store = source.store if isinstance(source, Tensor) else source.state.store if isinstance(source, Obj) else None
        if store is not None:
            return m.tensor("np", node, store=store)
    if last in {"default_rng", "RandomState"}:
        return m.obj("numpy rng", node)
    return _perhaps_number(m, head, last, args, kwargs, node)


_REDUCE = frozenset(["mean", "sum", "max", "min", "median", "std", "var", "prod", "dot", "percentile", "quantile", "amax",
                     "amin", "argmax", "argmin", "nanmean", "count_nonzero", "any", "all", "random_sample"])  # fmt: skip
_SIZES = {"rand": 0, "randn": 0, "random": 0, "random_sample": 0, "choice": 1, "randint": 2, "uniform": 2, "normal": 2}


def _perhaps_number(
    m: Interpreter, head: str, last: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """An array; or a number, which has no buffer that two names could share."""
    if head == "numpy.random" and last in _SIZES:
        several = "size" in kwargs or len(args) > _SIZES[last]
        return random_numbers.drawn(m, last, args, kwargs, node) if several else Num(varies=True)
    if last in _REDUCE:
        return m.unknown(node) if "axis" in kwargs or len(args) > 1 else Num(varies=True)
    made = m.tensor("np", node)
    same = last in _SAME_LENGTH and any(one.varies for value in args for one in tensors(value))
    if last == "sort":
        for one in tensors(args[0]) if args else ():
            random_numbers.of(made, one, last)
    few = bool(m.loops) and not syntax.many_turns(m.loops[-1], few=8)  # so many shapes, however often they are used
    made.varies = same or (not few and retracing.sized("np", last, args, kwargs)) or retracing.joined(m, last, args)
    return made


# Functions whose result is as long as their arguments are.
_SAME_LENGTH = frozenset(
    ["abs", "append", "argsort", "array", "clip", "concatenate", "copy", "cumsum", "exp", "expm1", "flip", "float32", "hstack",
     "isnan", "log", "log1p", "maximum", "minimum", "nan_to_num", "sign", "sort", "sqrt", "square", "stack", "tanh", "vstack"]
)  # fmt: skip


def _partial(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if not args:
        return m.unknown(node)
    return m.own(Wrapped("partial", args[0], m.spot(node), Options(args=args[1:], kwargs=kwargs)))  # type: ignore[no-any-return]


def _lru_cache(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    first = best(args[0]) if args else None
    if isinstance(first, (Func, Wrapped)):
        return m.own(Wrapped("lru_cache", first, m.spot(node), Options(maxsize=128)))  # type: ignore[no-any-return]
    size = kwargs.get("maxsize", args[0] if args else Const(128))
    limit = size.value if isinstance(size, Const) else 128
    made = m.obj("lru_cache", node)
    made.state.maxsize = limit
    return made


def _cache(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return m.own(Wrapped("lru_cache", args[0], m.spot(node), Options(maxsize=None))) if args else m.unknown(node)


def _cached_property(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return m.own(Wrapped("property", args[0], m.spot(node))) if args else m.unknown(node)


def _deque(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.seq("deque", [], node)
    limit = kwargs.get("maxlen", args[1] if len(args) > 1 else None)
    made.state.bounded = limit is not None and not (isinstance(limit, Const) and limit.value is None)
    return made


def _queue(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.seq("queue", [], node)
    size = kwargs.get("maxsize", args[0] if args else Const(0))
    made.state.bounded = not (isinstance(size, Const) and size.value == 0)
    return made


def _defaultdict(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made: Map = m.own(Map(m.spot(node)))
    made.rest = made_by(m, args[0], node) if args else None
    return made


def made_by(m: Interpreter, factory: Value, node: ast.AST) -> Value | None:
    """What the factory of a defaultdict gives."""
    name = getattr(best(factory), "name", "")
    if name == "builtins.dict":
        return m.own(Map(m.spot(node)))  # type: ignore[no-any-return]
    if name in ("builtins.list", "builtins.set", "collections.deque"):
        return m.seq(name.rpartition(".")[2], [], node)
    if name in ("builtins.int", "builtins.float"):
        return Const(0)
    return m.call(factory, [], {}, node) if isinstance(best(factory), (Func, Wrapped)) else None


def _deepcopy(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    for one in args[:1]:
        copies.deepcopied(m, one, node)
    return _copied(m, args[0], node) if args else m.unknown(node)


def _copied(m: Interpreter, value: Value, node: ast.AST, depth: int = 0) -> Value:
    value = best(value)
    if isinstance(value, Tensor):
        return iteration.fresh(m, value, node)
    if isinstance(value, Seq) and depth < 4:
        return m.seq(value.kind, [_copied(m, one, node, depth + 1) for one in value.items], node)
    if isinstance(value, Map) and depth < 4:
        made: Map = m.own(Map(m.spot(node)))
        made.attrs = {k: _copied(m, one, node, depth + 1) for k, one in value.attrs.items()}
        made.rest = _copied(m, value.rest, node, depth + 1) if value.rest is not None else None
        return made
    if isinstance(value, Obj):
        twin = m.obj(value.kind, node, value.cls)
        deeper = depth < 4 and value.family == "torch.Module"
        twin.attrs = {k: _copied(m, one, node, depth + 1) if deeper else one for k, one in value.attrs.items()}
        twin.state.frozen, twin.state.training = value.state.frozen, value.state.training
        twin.state.inplace = value.state.inplace
        return twin
    return value


def _shallow(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    value = best(args[0]) if args else NONE
    if isinstance(value, Map):
        made: Map = m.own(Map(m.spot(node)))
        made.attrs, made.rest = dict(value.attrs), value.rest
        made.state.copy_from(value.state)
        return made
    return value


def buffer(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`bytearray(…)`: memory that arrays can share."""
    made = m.obj("buffer", node)
    made.state.store = Storage(m.spot(node))
    return made


def _thread(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("thread", node)
    made.state.target = best(kwargs.get("target", NONE))
    given = best(kwargs.get("args", NONE))
    made.state.args = list(given.items) if isinstance(given, Seq) else []
    return made


def run_in_thread(m: Interpreter, function: Value, args: Sequence[Value], node: ast.AST) -> None:
    """Follow a function as another thread runs it: with a grad mode of its own."""
    if not isinstance(best(function), (Func, Wrapped)):
        escapes.escape(m, list(args), node)
        return
    mode, outside = m.grad, m.grad[-1]
    m.grad = ["grad"]
    thread = Thread()
    world = m.world
    before = world.thread, world.graphs, world.sessions, world.default_graph
    world.thread, world.graphs, world.sessions = thread, [], []  # blocks count only in the thread that is in them
    if world.graph_mode:  # and no thread has the default graph of another one
        world.default_graph = world.thread_graph = world.thread_graph or m.obj("tf.Graph", node)
    try:
        made = m.call(function, list(args), {}, node)
    finally:
        m.grad = mode
        world.thread, world.graphs, world.sessions, world.default_graph = before
    if outside in ("no_grad", "inference"):
        graph = next((t for t in tensors(made) if t.graph), None)
        found = graph.born if graph is not None else thread.graph
        if found is not None:
            m.add_fact(facts.GradModeLost(use=m.spot(node), birth=found, mode=outside))
    runs = m.world.threads.setdefault(id(getattr(best(function), "node", function)), [])
    runs.append((thread.writes, m.spot(node), bool(m.loops)))


def _field(m: Interpreter, kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("dataclass field", node)
    made.state.factory, made.state.default = kwargs.get("default_factory"), kwargs.get("default")
    return made


def _manager(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    """`@contextmanager`: the block runs where the function yields."""
    return m.own(Wrapped("manager", args[0], m.spot(node))) if args else m.unknown(node)


def _pushed(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    heap = best(args[0]) if args else NONE
    if isinstance(heap, Seq) and len(args) > 1:
        retention.stored(m, heap, NONE, args[1], node)
        m.note_write(heap, "items", args[1], m.spot(node), heap)
        heap.state.grown = True
        if len(heap.items) < 12:
            heap.items.append(args[1])
    return NONE


def _popped(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    if args:
        retention.drained(m, args[0])
    return iteration.element(m, args[0], node) if args else m.unknown(node)


def _namespace(m: Interpreter, kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("namespace", node)
    made.attrs.update(kwargs)
    return made


def _namedtuple(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    """`namedtuple("Step", ["loss", "logits"])`, as a class with these fields."""
    written: list[Any] = []
    for one in inside(args[1]) if len(args) > 1 else ():
        written += one.value.replace(",", " ").split() if isinstance(one, Const) and isinstance(one.value, str) else []
    if not written or not all(name.isidentifier() for name in written):
        return m.unknown(node)
    source = ast.parse("class Tuple:\n" + "".join(f" {name}: object\n" for name in written))
    cls = source.body[0]
    assert isinstance(cls, ast.ClassDef)
    return Class(cls, [Ref("typing.NamedTuple")], m.frame.module)


def _collected(m: Interpreter) -> Value:
    m.world.collections.append((m.clock, m.frame))
    return Num()


def _in_thread(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    if args:
        run_in_thread(m, args[0], args[1:], node)
    return m.unknown(node)


def _weak(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    """A weak reference to something that nothing else holds is dead at once."""
    value = best(args[0]) if args else None
    temporary = isinstance(node, ast.Call) and node.args and isinstance(node.args[0], (ast.Call, ast.BinOp))
    if temporary and isinstance(value, Tensor) and value.fw is not None and "param" not in value.flags:
        m.add_fact(facts.WeaklyHeld(holder=m.spot(node), birth=value.born))
    return m.unknown(node)


def _replaced(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """A copy of an object with other fields."""
    owner = best(args[0]) if args else NONE
    if not isinstance(owner, Obj):
        return m.unknown_of([*args, *kwargs.values()], node)
    twin = m.obj(owner.kind, node, owner.cls)
    twin.attrs = {**owner.attrs, **kwargs}
    return twin


_CALLS: dict[str, Any] = {
    "functools.partial": _partial,
    "functools.lru_cache": _lru_cache,
    "functools.cache": _cache,
    "functools.cached_property": _cached_property,
    "collections.deque": _deque,
    "collections.defaultdict": _defaultdict,
    "collections.OrderedDict": lambda m, args, kwargs, node: m.own(Map(m.spot(node))),
    "queue.Queue": _queue,
    "queue.SimpleQueue": _queue,
    "copy.deepcopy": _deepcopy,
    "copy.copy": _shallow,
    "threading.Thread": _thread,
    "threading.Lock": lambda m, args, kwargs, node: m.obj("lock", node),
    "threading.RLock": lambda m, args, kwargs, node: m.obj("lock", node),
    "concurrent.futures.ThreadPoolExecutor": lambda m, args, kwargs, node: m.obj("pool", node),
    "multiprocessing.pool.ThreadPool": lambda m, args, kwargs, node: m.obj("pool", node),
    "gc.collect": lambda m, args, kwargs, node: _collected(m),
    "asyncio.to_thread": lambda m, args, kwargs, node: _in_thread(m, args, node),
    "weakref.WeakValueDictionary": lambda m, args, kwargs, node: m.obj("weak map", node),
    "weakref.ref": lambda m, args, kwargs, node: _weak(m, args, node),
    "contextlib.nullcontext": lambda m, args, kwargs, node: m.obj("context", node),
    "contextlib.suppress": lambda m, args, kwargs, node: m.obj("context", node),
    "contextlib.contextmanager": lambda m, args, kwargs, node: _manager(m, args, node),
    "contextlib.asynccontextmanager": lambda m, args, kwargs, node: _manager(m, args, node),
    "bisect.insort": lambda m, args, kwargs, node: _pushed(m, args, node),
    "bisect.insort_left": lambda m, args, kwargs, node: _pushed(m, args, node),
    "bisect.insort_right": lambda m, args, kwargs, node: _pushed(m, args, node),
    "heapq.heappush": lambda m, args, kwargs, node: _pushed(m, args, node),
    "heapq.heappop": lambda m, args, kwargs, node: _popped(m, args, node),
    "heapq.heappushpop": lambda m, args, kwargs, node: _popped(m, args, node),
    "heapq.heapreplace": lambda m, args, kwargs, node: _popped(m, args, node),
    "types.SimpleNamespace": lambda m, args, kwargs, node: _namespace(m, kwargs, node),
    "functools.wraps": lambda m, args, kwargs, node: Ref("functools.wraps(…)"),
    "functools.wraps(…)": lambda m, args, kwargs, node: args[0] if args else NONE,
    "dataclasses.field": lambda m, args, kwargs, node: _field(m, kwargs, node),
    "dataclasses.replace": _replaced,
    "collections.namedtuple": lambda m, args, kwargs, node: _namedtuple(m, args, node),
    "typing.NamedTuple": lambda m, args, kwargs, node: _namedtuple(m, args, node),
    "dataclasses.dataclass": lambda m, args, kwargs, node: args[0] if args else NONE,
}


def object_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """Methods of threads, pools, storages and scopes."""
    if owner.family == "Thread" and owner.cls is not None and name == "start":
        own = owner.cls.find("run")
        if isinstance(own, Func):
            run_in_thread(m, own.bind(owner), [], node)
        return NONE
    if owner.kind == "thread":
        if name == "start":
            run_in_thread(m, owner.state.target or NONE, owner.state.args, node)
        return NONE
    if owner.kind == "pool":
        if name == "submit" and args:
            run_in_thread(m, args[0], args[1:], node)
        elif name in ("map", "imap", "imap_unordered", "starmap") and len(args) > 1:
            for turn in range(2):
                run_in_thread(
                    m, args[0], [iteration.next_element(m, best(a), turn, node, node) for a in args[1:]], node
                )
        return m.unknown(node)
    if owner.kind.startswith("process") and (found := processes.method(m, owner, name, args, kwargs, node)) is not None:
        return found
    if owner.kind == "torch storage":
        tensor = owner.state.tensor
        zero = args and isinstance(args[0], Const) and args[0].value == 0
        if name == "resize_" and tensor is not None:
            storages.emptied(m, tensor, node) if zero else storages.filled(m, tensor)
        return Num()
    if owner.kind == "tenure_scope" and name == "keep" and args:
        return _keep(m, args)
    if owner.kind == "numpy rng":
        return random_numbers.drawn(m, name, args, kwargs, node)
    if name in ("_replace", "replace") and owner.cls is not None and kwargs and not args:
        return _replaced(m, [owner], kwargs, node)
    if owner.kind == "exception" and name == "with_traceback":
        made = m.obj("exception", node)
        made.state.keeps_tensors = False
        return made
    return None


def _keep(m: Interpreter, args: list[Value]) -> Value:
    for one in tensors(args[0]):
        one.state.kept = True
    return args[0]


def _tenure(m: Interpreter, last: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if last == "dispose" and args:
        uses.end(m, args[0], "released", node)
        return m.obj("remains", node)
    if last == "scope":
        return m.obj("tenure_scope", node)
    if last == "keep" and args:
        return _keep(m, args)
    return args[0] if last in ("adopt", "carry") and args else m.unknown(node)
