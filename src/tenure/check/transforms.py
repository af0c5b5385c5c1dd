"""Functions made of functions: traced, differentiated, cached, partial. Calling one follows what is inside."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import effects
from tenure.check.contexts import tracing
from tenure.check.machine import Loop, Machine, Trace
from tenure.check.values import (
    NONE,
    Class,
    Const,
    Either,
    Func,
    Map,
    Num,
    Obj,
    Ref,
    Seq,
    Tensor,
    Value,
    Wrapped,
    best,
    inside,
    options,
    tensors,
)  # fmt: skip


def traced(
    m: Machine, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """`jit(f, …)`, or `jit(…)` still waiting for its function."""
    function = best(args[0]) if args else best(kwargs.get("fun", kwargs.get("func", kwargs.get("f", NONE))))
    if isinstance(function, Const):
        return Wrapped("partial", Ref(name), m.spot(node), {"args": [], "kwargs": kwargs})
    framework = "tf" if name.startswith("tensorflow") else "torch" if name.startswith(("torch", "functorch")) else "jax"
    options_: dict[str, Any] = {
        "name": name, "framework": framework, "kind": words[1], "concrete": "concrete" in words, "pair": "pair" in words,
        "gradient": name.endswith(("grad", "grad_and_value")),
        "aux": isinstance(kwargs.get("has_aux"), Const) and bool(kwargs["has_aux"].value),  # type: ignore[attr-defined]
        "static": _indices(kwargs.get("static_argnums")), "static_names": _names(kwargs.get("static_argnames")),
        "donate": _indices(kwargs.get("donate_argnums")), "donate_names": _names(kwargs.get("donate_argnames")),
    }  # fmt: skip
    options_["relaxed"] = bool(kwargs.keys() & {"input_signature", "reduce_retracing", "experimental_relax_shapes"})
    asked = [key for key in kwargs if key.startswith("static_")]
    if asked and not options_["static"] and not options_["static_names"]:
        options_["concrete"] = True  # which arguments are static is not written here
    made = m.own(Wrapped("trace", function, m.spot(node), options_))
    m.world.setdefault("traced", []).append(made)
    return made  # type: ignore[no-any-return]


def _indices(value: Value | None) -> tuple[int, ...]:
    found = [best(value)] if value is not None else []
    if found and isinstance(found[0], Seq):
        found = list(found[0].items)
    return tuple(v.value for v in found if isinstance(v, Const) and isinstance(v.value, int))


def _names(value: Value | None) -> tuple[str, ...]:
    found = [best(value)] if value is not None else []
    if found and isinstance(found[0], Seq):
        found = list(found[0].items)
    return tuple(v.value for v in found if isinstance(v, Const) and isinstance(v.value, str))


def call_wrapped(m: Machine, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call a function that a transformation made."""
    from tenure.check.calls import call

    kind = wrapped.kind
    if kind == "partial":
        return call(m, wrapped.inner, [*wrapped.options["args"], *args], {**wrapped.options["kwargs"], **kwargs}, node)
    if kind == "trace":
        return call_traced(m, wrapped, args, kwargs, node)
    if kind == "grad_mode":
        mode = str(wrapped.options["mode"])
        m.grad.append(mode)
        try:
            return call(m, wrapped.inner, args, kwargs, node)
        finally:
            m.grad.pop()
    if kind == "lru_cache":
        return _cached(m, wrapped, args, kwargs, node)
    if kind == "compile":
        made = call(m, wrapped.inner, args, kwargs, node)
        for one in tensors(made):
            if one.node is not None:
                one.node.state["compiled"] = wrapped.born
        return made
    return call(m, wrapped.inner, args, kwargs, node)


def _cached(m: Machine, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    from tenure.check.calls import call

    memo = wrapped.state.setdefault("memo", [])
    key = tuple((a.value,) if isinstance(a, Const) else None for a in args)
    constant = None not in key and not kwargs
    for known, result, trace in memo:
        if constant and known == key and not (isinstance(trace, Trace) and trace.ended):
            return result  # type: ignore[no-any-return]
    # What is made inside lives as long as the cache.
    loops, m.loop_ids = m.loop_ids, ()
    result = call(m, wrapped.inner, args, kwargs, node)
    m.loop_ids = loops
    memo.append((key if constant else None, result, m.traces[-1] if m.traces else None))
    if m.traces:
        for one in tensors(result):
            if one.trace is not None and one.trace in m.traces and one.trace.framework in ("jax", "tf"):
                m.tell(
                    "cached tracer",
                    [("birth", one.born), ("escape", wrapped.born), ("use", m.spot(node))],
                    how=one.trace.how,
                )
                break
    effects.cached_call(m, wrapped, [*args, *kwargs.values()], result, node)
    return result


def call_traced(m: Machine, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call a traced function: follow its body with symbols for arguments."""
    from tenure.check.calls import call

    o = wrapped.options
    framework, inner = o["framework"], wrapped.inner
    effects.retraced(m, wrapped, args, kwargs, node)
    orphan = wrapped.state.get("orphan")
    if orphan is not None:
        m.world.setdefault("temporary functions", []).append((*orphan, m.spot(node)))
    shift = 1 if isinstance(inner, Func) and inner.bound is not None and o.get("unbound") else 0
    names = _parameters(inner)
    for arg in args:
        _use_argument(m, arg, node)
    for index, arg in enumerate(args):
        at = index + shift
        if at in o["donate"] or (at < len(names) and names[at] in o["donate_names"]):
            effects.donated(m, arg, node)
            for other in args[:index] + args[index + 1 :]:
                if isinstance(arg, Tensor) and other is arg:
                    _use_argument(m, other, node)
    for name, arg in kwargs.items():
        _use_argument(m, arg, node)
        if name in o["donate_names"]:
            effects.donated(m, arg, node)
    trace = Trace(o["kind"], _short(o["name"]), framework, m.spot(node), concrete=o["concrete"])
    static = set(o["static"]) | {names.index(n) for n in o["static_names"] if n in names}
    result: Value
    with tracing(m, trace):
        given = [
            arg if index + shift in static else symbol(m, arg, trace, node) for index, arg in enumerate(args)
        ]  # fmt: skip
        named = {k: v if k in o["static_names"] else symbol(m, v, trace, node) for k, v in kwargs.items()}
        if o["name"].endswith("grad") and framework == "jax":
            # Only the arguments that are differentiated are symbols; the others stay what they are.
            given = [given[0], *args[1:]] if given else given
            named = dict(kwargs)
        if isinstance(inner, Func) and not args and not kwargs and o.get("entry"):
            given = [
                m.unknown(node) if at in static else assumed(m, trace, node)
                for at, name in enumerate(names)
                if at >= shift and name not in inner.defaults
            ]
        result = call(m, inner, given, named, node)
    return _outcome(m, wrapped, result, args, node)


def _outcome(m: Machine, wrapped: Wrapped, result: Value, args: list[Value], node: ast.AST) -> Value:
    o = wrapped.options
    value = concrete(m, result, o["framework"], node)
    if not o["gradient"]:
        return value
    gradients = concrete(m, args[0], o["framework"], node) if args else m.unknown(node)
    if o["pair"]:
        return m.seq("tuple", [value, gradients], node)
    if o["aux"]:
        loss = best(value)
        aux = loss.items[1] if isinstance(loss, Seq) and len(loss.items) > 1 else m.unknown(node)
        return m.seq("tuple", [gradients, aux], node)
    return gradients


def of_temporary(m: Machine, owner: Obj, function: Wrapped, node: ast.Call) -> None:
    """`Trainer().step(x)`: a tf.function refers to its object weakly, and nothing else holds this one."""
    temporary = isinstance(node.func, ast.Attribute) and owner.born.node is node.func.value
    if (
        temporary
        and function.kind == "trace"
        and function.options["framework"] == "tf"
        and not owner.state.get("stored")
    ):
        m.world.setdefault("temporary functions", []).append((owner.born, m.spot(node), m.spot(node)))


def _use_argument(m: Machine, arg: Value, node: ast.AST) -> None:
    for one in tensors(arg):
        effects.use(m, one, node)


def _short(name: str) -> str:
    return name.replace("tensorflow.", "tf.").replace("jax.numpy", "jnp")


def _parameters(function: Value) -> list[str]:
    if not isinstance(function, Func):
        return []
    spec = function.node.args
    return [a.arg for a in (*spec.posonlyargs, *spec.args)]


def assumed(m: Machine, trace: Trace, node: ast.AST) -> Tensor:
    """What an argument is inside a traced function, whoever calls it."""
    made = Tensor(trace.framework, m.spot(node))
    made.trace, made.flags = trace, frozenset({"assumed"})
    return m.own(made)  # type: ignore[no-any-return]


def symbol(m: Machine, value: Value, trace: Trace, node: ast.AST) -> Value:
    """What an argument is inside the traced function."""
    if isinstance(value, Either):
        return symbol(m, best(value), trace, node)
    framework = trace.framework
    if isinstance(value, Tensor):
        if framework == "tf" and "variable" in value.flags:
            return value
        made: Tensor = m.own(Tensor(framework, value.born if value.fw else m.spot(node)))
        made.trace = trace
        made.flags = frozenset() if value.fw is not None else frozenset({"assumed"})
        return made
    if isinstance(value, Seq):
        copied = m.seq(value.kind, [symbol(m, one, trace, node) for one in value.items], node)
        copied.rest = symbol(m, value.rest, trace, node) if value.rest is not None else None
        return copied
    if isinstance(value, Map):
        made_map: Map = m.own(Map(m.spot(node)))
        made_map.attrs = {key: symbol(m, one, trace, node) for key, one in value.attrs.items()}
        made_map.rest = symbol(m, value.rest, trace, node) if value.rest is not None else None
        return made_map
    number = isinstance(value, Num) or (isinstance(value, Const) and isinstance(value.value, (int, float)))
    if framework == "jax" and number:
        traced_number: Tensor = m.own(Tensor("jax", m.spot(node)))
        traced_number.trace = trace
        return traced_number
    if framework == "jax" and isinstance(value, Obj) and value.cls is not None:
        twin = m.obj(value.kind, node, value.cls)
        twin.attrs = {key: symbol(m, one, trace, node) for key, one in value.attrs.items()}
        return twin
    return value


def concrete(m: Machine, value: Value, framework: str, node: ast.AST, depth: int = 0) -> Value:
    """What a traced function's result is outside."""
    if isinstance(value, Either):
        return concrete(m, best(value), framework, node, depth)
    if isinstance(value, Tensor):
        if "variable" in value.flags:
            return value
        return m.tensor(framework, node) if value.fw is not None or framework == "jax" else m.unknown(node)
    if isinstance(value, Seq) and depth < 4:
        copied = m.seq(value.kind, [concrete(m, one, framework, node, depth + 1) for one in value.items], node)
        copied.rest = concrete(m, value.rest, framework, node, depth + 1) if value.rest is not None else None
        return copied
    if isinstance(value, Map) and depth < 4:
        made_map: Map = m.own(Map(m.spot(node)))
        made_map.attrs = {k: concrete(m, one, framework, node, depth + 1) for k, one in value.attrs.items()}
        made_map.rest = concrete(m, value.rest, framework, node, depth + 1) if value.rest is not None else None
        return made_map
    if (
        isinstance(value, Obj)
        and value.cls is not None
        and framework == "jax"
        and depth < 4
        and m.traces != value.traces
    ):
        twin = m.obj(value.kind, node, value.cls)
        twin.attrs = {key: concrete(m, one, framework, node, depth + 1) for key, one in value.attrs.items()}
        return twin
    if isinstance(value, (Num, Const)) and not (isinstance(value, Const) and value.value is None):
        return m.tensor(framework, node)
    return value


def run_branches(
    m: Machine, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """`cond`, `scan`, `map_fn` and their like: they trace functions now."""
    from tenure.check.calls import call

    framework = "tf" if name.startswith("tensorflow") else "torch" if name.startswith(("torch", "functorch")) else "jax"
    kind = words[-1] if not words[-1].isdigit() else "control flow"
    if framework == "tf" and not (m.traces or m.world.get("graph_mode") or m.world.get("graphs")):
        kind = ""  # run eagerly
    named = {1: ("true_fn",), 2: ("false_fn",), 0: ("fn", "body_fun", "f")}
    at = [int(w) for w in words if w.isdigit()]
    functions: list[Value] = []
    for index in at:
        value = (
            args[index] if index < len(args) else next((kwargs[n] for n in named.get(index, ()) if n in kwargs), None)
        )
        if value is not None:
            functions.extend(best(value).items if isinstance(best(value), Seq) else options(value))  # type: ignore[attr-defined]
    operands = args[max(at) + 1 :] if name.endswith((".cond", ".switch", "vjp", "jvp")) and framework != "tf" else None
    results: list[Value] = []
    for function in functions:
        trace = Trace(kind or "eager", _short(name), framework, m.spot(node))
        count = len(_parameters(function)) - (1 if isinstance(function, Func) and function.bound is not None else 0)
        if not kind:
            results.append(call(m, function, [m.tensor("tf", node) for _ in range(count)], {}, node))
            continue
        with tracing(m, trace):
            if operands is not None and len(operands) >= count:
                given = [symbol(m, one, trace, node) for one in operands]
            else:
                given = []
                for _ in range(max(count, 0)):
                    one = m.tensor(framework, node)
                    one.trace = trace
                    one.flags = frozenset({"assumed"})
                    given.append(one)
            results.append(concrete(m, call(m, function, given, {}, node), framework, node))
    if not results:
        return m.tensor(framework, node)
    # The result belongs to whoever called.
    return concrete(m, results[0], framework, node)


def function_method(
    m: Machine, owner: Func | Wrapped, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """`f.get_concrete_function(…)`, `f.lower(…)`, `f.cache_clear()`."""
    if name in ("get_concrete_function", "lower", "experimental_get_tracing_count"):
        if isinstance(owner, Wrapped) and owner.kind == "trace":
            call_traced(m, owner, args, kwargs, node)
        return m.unknown(node)
    if name == "cache_clear" and isinstance(owner, Wrapped):
        owner.state["cleared"] = True
    return m.unknown(node)


__all__ = ["Class", "Loop", "call_wrapped", "inside", "traced"]
