"""NumPy and the parts of the standard library that hold, copy or share tensors."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import autograd, effects
from tenure.check.machine import Machine
from tenure.check.values import (
    NONE,
    Const,
    Func,
    Map,
    Num,
    Obj,
    Seq,
    Storage,
    Tensor,
    Value,
    Wrapped,
    best,
    inside,
    tensors,
)  # fmt: skip

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


def call(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """A call of NumPy or the standard library; None if nothing is known of it."""
    head, _, last = name.rpartition(".")
    if name.startswith("numpy."):
        return _numpy(m, head, last, args, kwargs, node)
    found = _CALLS.get(name)
    if found is not None:
        made: Value = found(m, args, kwargs, node)
        return made
    if name.startswith("math."):
        for one in args:
            effects.read_as_number(m, one, node, name)
        rounds = last in ("ceil", "floor", "log2", "log", "trunc")  # to few sizes, as a rule
        return Num(varies=not rounds and any(isinstance(a, Num) and a.varies for a in args))
    if name.startswith("tenure."):
        return _tenure(m, last, args, kwargs, node)
    if name.startswith(("time.", "os.", "random.", "json.", "logging.", "warnings.", "pathlib.", "sys.")):
        return Num()
    return None


def _numpy(m: Machine, head: str, last: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if last in _ABOUT:
        return Num()
    for value in args:
        for one in inside(value):
            if isinstance(one, Tensor):
                if "keras" in one.flags:
                    m.tell("keras symbolic", [("use", m.spot(node)), ("birth", one.born)], how=f"np.{last}")
                effects.read_as_number(m, one, node, f"np.{last}")
    if last == "copyto" and args:
        for one in tensors(args[0]):
            autograd.written(m, one.store, m.spot(node))
        return NONE
    if last in ("asarray", "frombuffer", "from_dlpack", "ascontiguousarray") and args:
        source = best(args[0])
        store = (
            source.store
            if isinstance(source, Tensor)
            else source.state.get("store")
            if isinstance(source, Obj)
            else None
        )
        if store is not None:
            return m.tensor("np", node, store=store)
    if last in {"default_rng", "RandomState"}:
        return m.obj("numpy rng", node)
    return m.tensor("np", node)


def _partial(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if not args:
        return m.unknown(node)
    return m.own(Wrapped("partial", args[0], m.spot(node), {"args": args[1:], "kwargs": kwargs}))  # type: ignore[no-any-return]


def _lru_cache(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    first = best(args[0]) if args else None
    if isinstance(first, (Func, Wrapped)):
        return m.own(Wrapped("lru_cache", first, m.spot(node), {"maxsize": 128}))  # type: ignore[no-any-return]
    size = kwargs.get("maxsize", args[0] if args else Const(128))
    limit = size.value if isinstance(size, Const) else 128
    made = m.obj("lru_cache", node)
    made.state["maxsize"] = limit
    return made


def _cache(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return m.own(Wrapped("lru_cache", args[0], m.spot(node), {"maxsize": None})) if args else m.unknown(node)


def _cached_property(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return m.own(Wrapped("property", args[0], m.spot(node))) if args else m.unknown(node)


def _deque(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.seq("deque", [], node)
    limit = kwargs.get("maxlen", args[1] if len(args) > 1 else None)
    made.state["bounded"] = limit is not None and not (isinstance(limit, Const) and limit.value is None)
    return made


def _queue(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.seq("queue", [], node)
    made.state["bounded"] = True
    return made


def _defaultdict(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made: Map = m.own(Map(m.spot(node)))
    factory = getattr(best(args[0]), "name", "") if args else ""
    if factory in ("builtins.list", "builtins.set", "builtins.dict", "collections.deque"):
        inner: Any = (
            m.own(Map(m.spot(node))) if factory == "builtins.dict" else m.seq(factory.rpartition(".")[2], [], node)
        )
        made.rest = inner
    elif factory in ("builtins.int", "builtins.float"):
        made.rest = Const(0)
    elif args and isinstance(best(args[0]), Func):
        from tenure.check.calls import call as call_value

        made.rest = call_value(m, args[0], [], {}, node)
    return made


def _deepcopy(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return _copied(m, args[0], node) if args else m.unknown(node)


def _copied(m: Machine, value: Value, node: ast.AST, depth: int = 0) -> Value:
    value = best(value)
    if isinstance(value, Tensor):
        return effects.fresh(m, value, node)
    if isinstance(value, Seq) and depth < 4:
        return m.seq(value.kind, [_copied(m, one, node, depth + 1) for one in value.items], node)
    if isinstance(value, Map) and depth < 4:
        made: Map = m.own(Map(m.spot(node)))
        made.attrs = {k: _copied(m, one, node, depth + 1) for k, one in value.attrs.items()}
        made.rest = _copied(m, value.rest, node, depth + 1) if value.rest is not None else None
        return made
    if isinstance(value, Obj):
        twin = m.obj(value.kind, node, value.cls)
        twin.attrs = dict(value.attrs)
        return twin
    return value


def _shallow(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    value = best(args[0]) if args else NONE
    if isinstance(value, Map):
        made: Map = m.own(Map(m.spot(node)))
        made.attrs, made.rest = dict(value.attrs), value.rest
        made.state.update(value.state)
        return made
    return value


def _buffer(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("buffer", node)
    made.state["store"] = Storage(m.spot(node))
    return made


def _thread(m: Machine, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("thread", node)
    made.state["target"] = best(kwargs.get("target", NONE))
    given = best(kwargs.get("args", NONE))
    made.state["args"] = list(given.items) if isinstance(given, Seq) else []
    return made


def run_in_thread(m: Machine, function: Value, args: list[Value], node: ast.AST) -> None:
    """Follow a function as another thread runs it: with a grad mode of its own."""
    from tenure.check.calls import call as call_value

    if not isinstance(best(function), (Func, Wrapped)):
        effects.escape(m, args, node)
        return
    mode, outside = m.grad, m.grad[-1]
    m.grad = ["grad"]
    thread: dict[str, Any] = {}
    before = m.world.get("thread")
    m.world["thread"] = thread
    try:
        made = call_value(m, function, args, {}, node)
    finally:
        m.grad = mode
        m.world["thread"] = before
    if outside in ("no_grad", "inference"):
        graph = next((t for t in tensors(made) if t.graph), None)
        found = graph.born if graph is not None else thread.get("graph")
        if found is not None:
            m.tell("grad mode lost", [("use", m.spot(node)), ("birth", found)], mode=outside)
    runs = m.world.setdefault("threads", {}).setdefault(id(getattr(best(function), "node", function)), [])
    runs.append((thread.get("writes", []), m.spot(node), bool(m.loops)))


def _collected(m: Machine) -> Value:
    m.world.setdefault("collections", []).append((m.clock, m.frame))
    return Num()


def _in_thread(m: Machine, args: list[Value], node: ast.AST) -> Value:
    if args:
        run_in_thread(m, args[0], args[1:], node)
    return m.unknown(node)


def _weak(m: Machine, args: list[Value], node: ast.AST) -> Value:
    """A weak reference to something that nothing else holds is dead at once."""
    value = best(args[0]) if args else None
    temporary = isinstance(node, ast.Call) and node.args and isinstance(node.args[0], (ast.Call, ast.BinOp))
    if temporary and isinstance(value, Tensor) and value.fw is not None and "param" not in value.flags:
        m.tell("address as key", [("holder", m.spot(node)), ("birth", value.born)], how="weakref")
    return m.unknown(node)


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
    "multiprocessing.Queue": _queue,
    "copy.deepcopy": _deepcopy,
    "copy.copy": _shallow,
    "threading.Thread": _thread,
    "threading.Lock": lambda m, args, kwargs, node: m.obj("lock", node),
    "threading.RLock": lambda m, args, kwargs, node: m.obj("lock", node),
    "concurrent.futures.ThreadPoolExecutor": lambda m, args, kwargs, node: m.obj("pool", node),
    "multiprocessing.pool.ThreadPool": lambda m, args, kwargs, node: m.obj("pool", node),
    "gc.collect": lambda m, args, kwargs, node: _collected(m),
    "asyncio.to_thread": lambda m, args, kwargs, node: _in_thread(m, args, node),
    "weakref.ref": lambda m, args, kwargs, node: _weak(m, args, node),
    "contextlib.nullcontext": lambda m, args, kwargs, node: m.obj("context", node),
    "contextlib.suppress": lambda m, args, kwargs, node: m.obj("context", node),
    "contextlib.contextmanager": lambda m, args, kwargs, node: args[0] if args else NONE,
    "functools.wraps": lambda m, args, kwargs, node: m.obj("context", node),
    "dataclasses.dataclass": lambda m, args, kwargs, node: args[0] if args else NONE,
}


def object_method(
    m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """Methods of threads, pools, storages and scopes."""
    if owner.kind == "thread":
        if name == "start":
            run_in_thread(m, owner.state["target"], owner.state["args"], node)
        return NONE
    if owner.kind == "pool":
        if name == "submit" and args:
            run_in_thread(m, args[0], args[1:], node)
        elif name in ("map", "imap", "imap_unordered", "starmap") and len(args) > 1:
            for turn in range(2):
                run_in_thread(m, args[0], [effects.next_element(m, best(a), turn, node, node) for a in args[1:]], node)
        return m.unknown(node)
    if owner.kind == "torch storage":
        tensor = owner.state["tensor"]
        zero = args and isinstance(args[0], Const) and args[0].value == 0
        if name == "resize_":
            if zero:
                effects.end(m, tensor, "emptied", node)
            elif tensor.store.state.get("ended") is not None:
                m.put(tensor.store.state, "ended", None)
        return Num()
    if owner.kind == "tenure_scope" and name == "keep" and args:
        return _keep(m, args)
    if owner.kind == "numpy rng":
        return m.tensor("np", node)
    if name in ("_replace", "replace") and owner.cls is not None and kwargs and not args:
        twin = m.obj(owner.kind, node, owner.cls)
        twin.attrs = {**owner.attrs, **kwargs}
        return twin
    if owner.kind == "exception" and name == "with_traceback":
        made = m.obj("exception", node)
        made.state["tensors"] = False
        return made
    return None


def _keep(m: Machine, args: list[Value]) -> Value:
    for one in tensors(args[0]):
        one.state["kept"] = True
    return args[0]


def _tenure(m: Machine, last: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if last == "dispose" and args:
        effects.end(m, args[0], "released", node)
        return m.obj("remains", node)
    if last == "scope":
        return m.obj("tenure_scope", node)
    if last == "keep" and args:
        return _keep(m, args)
    return args[0] if last in ("adopt", "carry") and args else m.unknown(node)
