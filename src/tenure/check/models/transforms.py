"""Functions made of functions: traced, differentiated, cached, partial. Calling one follows what is inside."""

from __future__ import annotations

import ast
from dataclasses import replace

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import (
    NONE,
    Const,
    Framework,
    Func,
    Obj,
    Options,
    Ref,
    Seq,
    Tensor,
    Trace,
    Value,
    Wrapped,
)
from tenure.check.lifetimes import retention, retracing, uses
from tenure.check.lifetimes.traces import tracing
from tenure.check.models import jax_functions, jax_modules
from tenure.check.models.symbols import array_symbol, assumed, concrete, symbol
from tenure.check.value_queries import best, options, tensors


def traced(
    m: Interpreter, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """`jit(f, …)`, or `jit(…)` still waiting for its function."""
    function = best(args[0]) if args else best(kwargs.get("fun", kwargs.get("func", kwargs.get("f", NONE))))
    if isinstance(function, Const):
        return Wrapped("partial", Ref(name), m.spot(node), Options(kwargs=kwargs))
    if name == "tensorflow.function" and m.world.functions_eager and args:
        return args[0]  # it is not traced
    framework = _framework(name)
    static, static_names = _indices(kwargs.get("static_argnums")), _names(kwargs.get("static_argnames"))
    asked = any(key.startswith("static_") for key in kwargs)
    aux = kwargs.get("has_aux")
    options_ = Options(
        name=name,
        args=args[1:],
        kwargs=kwargs,
        framework=framework,
        kind=words[1],
        # Which arguments are static may not be written here.
        concrete="concrete" in words or (asked and not static and not static_names),
        pair="pair" in words,
        gradient=name.endswith(("grad", "grad_and_value")),
        aux=isinstance(aux, Const) and bool(aux.value),
        arrays="arrays" in words,
        static=static,
        static_names=static_names,
        donate=_indices(kwargs.get("donate_argnums")),
        donate_names=_names(kwargs.get("donate_argnames")),
        signature="input_signature" in kwargs,  # numbers become tensors, and there is one trace
        relaxed=bool(kwargs.keys() & {"input_signature", "reduce_retracing", "experimental_relax_shapes"}),
    )
    made = m.own(Wrapped("trace", function, m.spot(node), options_))
    made.state.made_once = any(marks & {"once", "first"} for marks in m.world.guards)
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


def call_wrapped(m: Interpreter, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call a function that a transformation made."""
    kind = wrapped.kind
    if kind == "partial":
        return m.call(wrapped.inner, [*wrapped.options.args, *args], {**wrapped.options.kwargs, **kwargs}, node)
    if kind == "trace" and wrapped.options.framework == "tf" and m.world.functions_eager:
        return m.call(wrapped.inner, args, kwargs, node)
    if kind == "trace":
        return call_traced(m, wrapped, args, kwargs, node)
    if kind == "grad_mode":
        mode = wrapped.options.mode
        m.grad.append(mode)
        try:
            return m.call(wrapped.inner, args, kwargs, node)
        finally:
            m.grad.pop()
    if kind == "manager":
        made_obj = m.obj("manager", node)
        made_obj.state.function, made_obj.state.args = wrapped.inner, args
        made_obj.attrs.update(kwargs)
        return made_obj
    if kind == "drop":
        return jax_modules.call_dropped(m, wrapped, args, kwargs, node)
    if kind == "lru_cache":
        return _cached(m, wrapped, args, kwargs, node)
    if kind == "own rules":
        return jax_functions.call_with_rules(m, wrapped, args, kwargs, node)
    if kind == "pullback":
        return jax_functions.call_pullback(m, wrapped, args, node)
    if kind == "compile":
        made = m.call(wrapped.inner, args, kwargs, node)
        for one in tensors(made):
            if one.node is not None:
                one.node.state.compiled = wrapped.born
        return made
    return m.call(wrapped.inner, args, kwargs, node)


def _cached(m: Interpreter, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if wrapped.state.memo is None:
        wrapped.state.memo = []
    memo = wrapped.state.memo
    key = tuple((a.value,) if isinstance(a, Const) else None for a in args)
    constant = None not in key and not kwargs
    for known, result, trace in memo:
        if constant and known == key and not (isinstance(trace, Trace) and trace.ended):
            return result
    # What is made inside lives as long as the cache.
    loops, m.loop_ids = m.loop_ids, ()
    result = m.call(wrapped.inner, args, kwargs, node)
    m.loop_ids = loops
    memo.append((key if constant else None, result, m.traces[-1] if m.traces else None))
    if m.traces:
        for one in tensors(result):
            if one.trace is not None and one.trace in m.traces and one.trace.framework in ("jax", "tf"):
                m.add_fact(facts.CachedTracer(birth=one.born, escape=wrapped.born, use=m.spot(node), how=one.trace.how))
                break
    retention.cached_call(m, wrapped, [*args, *kwargs.values()], result, node)
    return result


def call_traced(m: Interpreter, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call a traced function: follow its body with symbols for arguments."""
    o = wrapped.options
    framework, inner = o.framework, wrapped.inner
    if not o.ahead:
        retracing.called(m, wrapped, args, kwargs, node)
    orphan = wrapped.state.orphan
    if orphan is not None:
        m.world.temporary_functions.append((*orphan, m.spot(node)))
    shift = 1 if isinstance(inner, Func) and inner.bound is not None and o.unbound else 0
    names = _parameters(inner)
    if not o.ahead:  # a trace ahead of time looks only at shapes
        _arguments_used(m, wrapped, args, kwargs, shift, names, node)
    taken = _taken(o, len(args))
    trace = Trace(o.kind, _short(o.name), framework, m.spot(node), concrete=o.concrete, code=_code(inner))
    trace.sure = taken is not None
    if o.concrete and taken and _last(o.name) in _DIFFERENTIATES:
        trace.concrete = not all(uses.all_symbolic(m, args[index]) for index in taken)
    static = set(o.static) | {names.index(n) for n in o.static_names if n in names}
    result: Value
    with tracing(m, trace):
        made = array_symbol if o.arrays else symbol
        given = [arg if index + shift in static else made(m, arg, trace, node) for index, arg in enumerate(args)]
        named = {k: v if k in o.static_names else made(m, v, trace, node) for k, v in kwargs.items()}
        if taken is not None and framework == "jax":
            given = [one if index in taken else args[index] for index, one in enumerate(given)]
        if _last(o.name) in _DIFFERENTIATES:  # only the arguments that are differentiated are symbols
            given = [one if taken is not None or index == 0 else args[index] for index, one in enumerate(given)]
            named = dict(kwargs)
        if isinstance(inner, Func) and not args and not kwargs and o.entry:
            given = [
                m.unknown(node) if at in static or o.arrays else assumed(m, trace, node)
                for at, name in enumerate(names)
                if at >= shift and name not in inner.defaults
            ]
        result = m.call(inner, given, named, node)
    return _outcome(m, wrapped, result, args, node)


_DIFFERENTIATES = frozenset(
    ["grad", "value_and_grad", "jacfwd", "jacrev", "jacobian", "hessian", "filter_grad", "filter_value_and_grad"]
)


def _taken(o: Options, count: int) -> frozenset[int] | None:
    """The arguments that become symbols: those that are differentiated or mapped over; None if they are not known."""
    last, everything = _last(o.name), frozenset(range(count))
    if o.framework != "jax" or last not in _DIFFERENTIATES | {"vmap", "filter_vmap"}:
        return None if o.concrete else everything
    word = "in_axes" if "vmap" in last else "argnums"
    given = best(o.kwargs.get(word, o.args[0] if o.args else Const(0)))
    if not o.name.startswith("jax."):
        return None  # the libraries' own leave parts of an argument as they are
    parts = given.items if isinstance(given, Seq) and given.rest is None else [given]
    known = [one.value for one in parts if isinstance(one, Const)]
    if len(known) < len(parts):
        return None
    if word == "argnums":
        return frozenset(one for one in known if isinstance(one, int)) & everything
    mapped = [value is not None for value in known] if isinstance(given, Seq) else [known[0] is not None] * count
    return frozenset(index for index, one in enumerate(mapped) if one) & everything


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _arguments_used(
    m: Interpreter,
    wrapped: Wrapped,
    args: list[Value],
    kwargs: dict[str, Value],
    shift: int,
    names: list[str],
    node: ast.AST,
) -> None:
    """The arrays in the arguments are read, and those in the donated ones end. What is donated may be given only once."""
    o = wrapped.options
    places = [(index + shift, names[index + shift] if index + shift < len(names) else "") for index in range(len(args))]
    given = [*zip(places, args, strict=True), *(((-1, name), arg) for name, arg in kwargs.items())]
    for (at, name), arg in given:
        if at in o.static or name in o.static_names or o.framework != "jax":
            _use_argument(m, arg, node)
        else:
            uses.arguments(m, arg, node)
    taken: list[Value] = []
    others: list[Value] = []
    for (at, name), arg in given:
        (taken if at in o.donate or name in o.donate_names else others).append(arg)
    taken = [arg for arg in taken if not _taken_apart(o.name, arg)]
    uses.given_twice(m, taken, others, node)
    for arg in taken:
        uses.donated(m, arg, node)


def _taken_apart(name: str, arg: Value) -> bool:
    """Whether this is an object of `nnx.jit`, which puts its results into the objects that it was given."""
    return name.startswith("flax.nnx.") and not (isinstance(one := best(arg), Tensor) and one.fw == "jax")


def _outcome(m: Interpreter, wrapped: Wrapped, result: Value, args: list[Value], node: ast.AST) -> Value:
    o = wrapped.options
    value = concrete(m, result, o.framework, node)
    if o.framework == "jax" and m.traces:
        around = m.trace_of(one for arg in args for one in tensors(arg))
        for one in tensors(value):
            one.trace = around if one.fw == "jax" else one.trace
    if not o.gradient:
        return value
    gradients = _gradients(m, o, args, node)
    loss = best(value)
    if isinstance(loss, Seq) and o.aux and loss.items:
        loss = best(loss.items[0])
    if o.pair and isinstance(loss, Tensor):
        loss.flags |= {"scalar"}  # nothing else can be differentiated
    if o.pair:
        return m.seq("tuple", [value, gradients], node)
    if o.aux:
        both = best(value)
        aux = both.items[1] if isinstance(both, Seq) and len(both.items) > 1 else m.unknown(node)
        return m.seq("tuple", [gradients, aux], node)
    return gradients


def _gradients(m: Interpreter, o: Options, args: list[Value], node: ast.AST) -> Value:
    """Arrays like the arguments that are differentiated: a tuple, where several are asked for."""
    given = best(o.kwargs.get("argnums", o.args[0] if o.args else Const(0)))
    several = isinstance(given, Seq)
    wanted = [best(one) for one in given.items] if isinstance(given, Seq) else [given]
    indices = [one.value for one in wanted if isinstance(one, Const) and isinstance(one.value, int)]
    if len(indices) < len(wanted) or any(index >= len(args) for index in indices):
        return m.unknown_of(args, node)
    made = [concrete(m, args[index], o.framework, node) for index in indices]
    return m.seq("tuple", list(made), node) if several or not made else made[0]


def of_temporary(m: Interpreter, owner: Obj, function: Wrapped, node: ast.Call | ast.Attribute) -> None:
    """`Trainer().step(x)`: a tf.function refers to its object weakly, and nothing else holds this one.

    Without a call, as in `keep(Trainer().step)`, the call may come later.
    """
    read = node.func if isinstance(node, ast.Call) else node
    temporary = isinstance(read, ast.Attribute) and _only_here(m, owner, read.value)
    if not (temporary and function.kind == "trace" and function.options.framework == "tf"):
        return
    if isinstance(node, ast.Call):
        m.world.temporary_functions.append((owner.born, m.spot(node), m.spot(node)))
    else:
        function.state.orphan = (owner.born, m.spot(node))


def _only_here(m: Interpreter, owner: Obj, made_by: ast.expr) -> bool:
    """Whether only this expression holds an object: it constructs it, or calls a function that does and keeps nothing."""
    if not isinstance(made_by, ast.Call) or owner.state.stored or owner.state.escaped:
        return False
    if owner.born.node is made_by:
        return True
    maker = best(m.lookup(made_by.func.id)) if isinstance(made_by.func, ast.Name) else None
    plain = isinstance(maker, Func) and not getattr(maker.node, "decorator_list", True)
    shared = any(value is owner for value in owner.born.module.names.values())
    return plain and maker.name == owner.born.function and not shared  # type: ignore[union-attr]


def _use_argument(m: Interpreter, arg: Value, node: ast.AST) -> None:
    for one in tensors(arg):
        uses.use(m, one, node)


def _framework(name: str) -> Framework:
    """The framework of a transformation; equinox, flax and the like are JAX's."""
    return "tf" if name.startswith("tensorflow") else "torch" if name.startswith(("torch", "functorch")) else "jax"


def _short(name: str) -> str:
    return name.replace("tensorflow.", "tf.").replace("jax.numpy", "jnp")


def _code(function: Value) -> ast.AST | None:
    while isinstance(function, Wrapped):
        function = function.inner
    return function.node if isinstance(function, Func) else None


def _parameters(function: Value) -> list[str]:
    if not isinstance(function, Func):
        return []
    spec = function.node.args
    return [a.arg for a in (*spec.posonlyargs, *spec.args)]


def run_branches(
    m: Interpreter, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """`cond`, `scan`, `map_fn` and their like: they trace functions now."""
    framework = _framework(name)
    kind = words[-1] if not words[-1].isdigit() else "control flow"
    if framework == "tf" and not (m.traces or m.world.graph_mode or m.world.graphs):
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
    operands = (
        args[max(at) + 1 :]
        if name.endswith((".cond", ".switch", "vjp", "jvp", "linearize")) and framework != "tf"
        else None
    )
    if operands and name.endswith("jvp") and isinstance(primals := best(operands[0]), Seq) and primals.rest is None:
        operands = list(primals.items)
    results: list[Value] = []
    for function in functions:
        trace = Trace(kind or "eager", _short(name), framework, m.spot(node))
        count = _required(function)
        if not kind:
            results.append(m.call(function, [m.tensor("tf", node) for _ in range(count)], {}, node))
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
            results.append(concrete(m, m.call(function, given, {}, node), framework, node))
    if not results:
        return m.tensor(framework, node)
    # The result belongs to whoever called.
    result = concrete(m, results[0], framework, node)
    if name.endswith(("vjp", "jvp", "linearize")):
        return jax_functions.differentiated(m, name, result, args, kwargs, node)
    return result


def _required(function: Value) -> int:
    """How many arguments a function needs: those with defaults keep them."""
    if not isinstance(function, Func):
        return 0
    bound = 1 if function.bound is not None else 0
    return len([name for name in _parameters(function) if name not in function.defaults]) - bound


def function_method(
    m: Interpreter, owner: Func | Wrapped, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """`f.get_concrete_function(…)`, `f.lower(…)`, `f.cache_clear()`."""
    if name in ("get_concrete_function", "lower", "trace", "eval_shape"):
        if isinstance(owner, Wrapped) and owner.kind == "trace":
            # It traces, and runs nothing: no argument is donated, and no call is repeated.
            ahead = replace(owner.options, donate=(), donate_names=(), ahead=True)
            call_traced(m, Wrapped("trace", owner.inner, owner.born, ahead), args, kwargs, node)
        return m.unknown(node)
    if isinstance(owner, Wrapped) and (given := jax_functions.rules_given(m, owner, name, args, node)) is not None:
        return given
    if name == "cache_clear" and isinstance(owner, Wrapped):
        owner.state.cleared = True
    return m.unknown(node)
