"""Traced functions that trace anew from turn to turn."""

from __future__ import annotations

import ast

from tenure.check import facts, syntax
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import (
    NONE,
    Class,
    Const,
    Framework,
    Func,
    Map,
    Num,
    Obj,
    Ref,
    Seq,
    Tensor,
    Value,
    Wrapped,
)
from tenure.check.lifetimes import random_numbers, retention
from tenure.check.syntax import Loop
from tenure.check.value_queries import best, inside, tensors


def called(m: Interpreter, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> None:
    """Look at a call of a traced function inside a loop."""
    o = wrapped.options
    # What a loop of JAX traces without a compiled function around it is compiled each time, too.
    if not m.loops or any(trace.kind != "control flow" or trace.framework != "jax" for trace in m.traces):
        return
    if o.name.endswith(("grad", "vmap", "make_jaxpr", "jacfwd", "jacrev", "hessian")) or o.framework == "torch":
        return
    if o.signature:
        return
    outer = [loop for loop in m.loops if loop.uid not in wrapped.loops and loop.kind == "python"]
    spot = m.spot(node)
    makers = [loop for loop in m.loops if loop.uid in wrapped.loops]
    if makers and _new_each_turn(wrapped):
        if m.world.script and not wrapped.state.made_once and _same_code(m, wrapped, makers, m.loops):
            m.add_fact(facts.FunctionMadeInLoop(use=wrapped.born, holder=spot, how=o.name))
        return  # what differs may differ only where the function does, too
    if m.traces or not (outer or makers):
        return
    shift = 1 if isinstance(wrapped.inner, Func) and wrapped.inner.bound is not None and o.unbound else 0
    names = _parameters(wrapped.inner)
    if shift and (0 in o.static or set(names[:1]) & set(o.static_names)):
        _object(m, wrapped, wrapped.inner.bound, node)  # type: ignore[attr-defined]
    for index, arg in enumerate(args):
        at = index + shift
        static = at in o.static or (at < len(names) and names[at] in o.static_names)
        given = node.args[index] if isinstance(node, ast.Call) and index < len(node.args) else None
        _argument(m, wrapped, arg, given, static=static, node=node)
    for name, arg in kwargs.items():
        static = name in o.static_names or (name in names and names.index(name) in o.static)
        named = {one.arg: one.value for one in node.keywords} if isinstance(node, ast.Call) else {}
        _argument(m, wrapped, arg, named.get(name), static=static, node=node)


def handed_over(m: Interpreter, args: list[Value], node: ast.AST) -> None:
    """`strategy.run(f)`, of a tf.function `f` that the loop defines: it is traced there."""
    wrapped = best(args[0]) if args else None
    if not isinstance(wrapped, Wrapped) or wrapped.options.framework != "tf" or m.traces:
        return
    makers = [loop for loop in m.loops if loop.uid in wrapped.loops]
    if makers and m.world.script and _same_code(m, wrapped, makers, m.loops):
        m.add_fact(facts.FunctionMadeInLoop(use=wrapped.born, holder=m.spot(node), how=wrapped.options.name))


def _new_each_turn(wrapped: Wrapped) -> bool:
    """`jit(lambda …)`, `jit(grad(f))`, or `jit(f)` of an `f` defined in the loop; one and the same function is in the cache.

    A bound method is a new object each time that it is read, and `jax.jit` refers to it weakly.
    """
    inner = best(wrapped.inner)
    if wrapped.options.framework == "tf":
        return True
    if isinstance(inner, Func) and isinstance(inner.bound, Obj) and wrapped.options.name == "jax.jit":
        return not isinstance(inner.node, ast.Lambda)
    made = isinstance(inner, Func) or (isinstance(inner, Wrapped) and inner.kind in ("partial", "trace"))
    return made and bool(set(inner.loops) & set(wrapped.loops))  # type: ignore[attr-defined]


def _same_code(m: Interpreter, wrapped: Wrapped, makers: list[Loop], loops: list[Loop]) -> bool:
    """Whether one function, given what changes as arguments, could do the work of all those that a loop makes.

    A function for each of several models is another matter, and so is one whose captured values are not known.
    """
    around = {loop.uid for loop in makers}
    kinds = _changing(wrapped.inner, around)
    for value in wrapped.options.kwargs.values():  # shardings, for instance
        kinds |= _kind(value, around, 0)
    if not kinds & {"array"} and _made_for(wrapped, makers[-1]):
        return False
    if len(makers) == len(loops):
        return _long(makers[-1]) and kinds <= {"number", "array"}
    # An inner loop calls it several times: what is made anew for a number alone is still made too often.
    return _long(makers[-1]) and kinds == {"number"} and len(makers) == 1


def _made_for(wrapped: Wrapped, loop: Loop) -> bool:
    """`make(model)` for each model: what the loop's names give the function that makes it is not known, but for numbers."""
    if loop.count is not None or syntax.over_range(loop):
        return False
    targets = [getattr(loop.node, "target", None), *(part.target for part in getattr(loop.node, "generators", ()))]
    names = {
        one.id for target in targets if target is not None for one in ast.walk(target) if isinstance(one, ast.Name)
    }
    calls = (one for one in ast.walk(loop.node) if isinstance(one, ast.Call))
    return any(
        getattr(one.func, "attr", getattr(one.func, "id", "")) == wrapped.born.function
        and any(
            isinstance(part, ast.Name) and part.id in names
            for arg in ast.iter_child_nodes(one)
            for part in ast.walk(arg)
        )
        for one in calls
    )


def _changing(function: Value, loops: set[int], depth: int = 0) -> set[str]:
    """What the values are that a function captures and that differ between the iterations of some loops."""
    function = best(function)
    kinds: set[str] = set()
    if isinstance(function, Wrapped):
        given = [*function.options.args, *function.options.kwargs.values()]
        for value in given if function.kind == "partial" else ():
            kinds |= _kind(value, loops, depth)
        return kinds | (_changing(function.inner, loops, depth) if depth < 4 else {"unknown"})
    if not isinstance(function, Func):
        return {"unknown"}
    if isinstance(function.bound, Obj) and loops & set(function.bound.loops):
        kinds.add("object")
    for name in syntax.free_names(function.node):
        frame = function.frame
        while frame is not None and name not in frame.names:
            frame = frame.outer
        held = frame.names[name] if frame is not None else function.module.names.get(name)
        if held is not None:
            kinds |= _kind(held, loops, depth)
    for value in function.defaults.values():
        kinds |= _kind(value, loops, depth)
    return kinds


def _kind(value: Value, loops: set[int], depth: int) -> set[str]:
    value = best(value)
    if isinstance(value, Num):
        return {"number"} if value.varies else set()
    if not loops & set(getattr(value, "loops", ())):
        return set()
    if isinstance(value, Tensor):
        return {"array"} if value.fw is not None else {"unknown"}
    if isinstance(value, (Func, Wrapped)):
        return _changing(value, loops, depth + 1) if depth < 4 else {"unknown"}
    if isinstance(value, (Seq, Map)):
        known = all(t.fw is not None for t in tensors(value)) and not any(
            isinstance(v, (Obj, Func)) for v in inside(value)
        )
        return {"array"} if known else {"unknown"}
    return {"object"}


_SHAPED = {"zeros": 0, "ones": 0, "empty": 0, "full": 0, "eye": 0, "arange": 0, "range": 0, "linspace": 2,
           "normal": 1, "uniform": 1, "randint": 1, "fill": 0}  # fmt: skip
_JOINS = frozenset(["concatenate", "concat", "append", "vstack", "hstack", "column_stack", "row_stack"])
_CONVERTS = frozenset(["array", "asarray", "constant", "convert_to_tensor"])


def sized(framework: Framework, name: str, args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Whether an array is made in a size that differs from turn to turn."""
    last = name.rpartition(".")[2]
    at = _SHAPED.get(last)
    if at is None:
        return False
    at = 0 if framework == "tf" and at == 1 else at
    shape = kwargs.get("shape", args[at] if at < len(args) else None)
    given = args if last in ("arange", "range") and framework != "torch" else [shape] if shape is not None else []
    # `arange(i, i + 8)` always has 8.
    return random_numbers.differs(given[:2]) and (last not in ("arange", "range") or len(given) == 1)


def joined(m: Interpreter, name: str, args: list[Value]) -> bool:
    """`concatenate([first, *parts])` or `array([parts])` of a list that the loop makes longer, or of an array that it does."""
    last = name.rpartition(".")[2]
    parts = best(args[0]) if args and last in (*_JOINS, "stack", *_CONVERTS) else None
    if isinstance(parts, Tensor):
        return parts.varies and last in _CONVERTS
    if not isinstance(parts, Seq):
        return False
    inner = [part for part in map(best, parts.items) if isinstance(part, Seq)] if last in _CONVERTS else []
    return any(one.state.lengthens or lengthens(m, one) for one in (parts, *inner))


def lengthens(m: Interpreter, parts: Seq) -> bool:
    """Whether the loop that runs makes a list longer in each iteration."""
    state = parts.state
    kept = not state.drained and not state.bounded and bool(m.loops)
    # The first iteration does not show yet whether one takes something out.
    return bool(state.grown) and kept and m.loops[-1].uid not in parts.loops and m.loops[-1].turn > 0


def grows(m: Interpreter, node: ast.Assign, value: Value) -> None:
    """`x = concatenate([x, new])` in a loop, or the same with `self.x`: another shape in every iteration."""
    call, target = node.value, node.targets[0]
    if not (isinstance(call, ast.Call) and call.args and isinstance(value, Tensor) and carries(m, target, (Tensor,))):
        return
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    first = call.args[0]
    parts = first.elts if isinstance(first, (ast.List, ast.Tuple)) else call.args[:1]
    if name in _JOINS and any(ast.unparse(part) == ast.unparse(target) for part in parts):
        value.varies = True


def carries(m: Interpreter, target: ast.expr, kinds: tuple[type, ...] = (Const, Num)) -> bool:
    """Whether a name or attribute carries a value of some kinds from one iteration to the next."""
    if isinstance(target, ast.Name):
        # Otherwise each iteration, or each call, begins with another.
        here = m.loops[-1].function == m.frame.function and target.id in syntax.carried_names(m.loops[-1].node)
        return here and isinstance(best(m.frame.names.get(target.id, NONE)), kinds)
    owner = best(m.evaluate(target.value)) if isinstance(target, ast.Attribute) else NONE
    if not (isinstance(owner, Obj) and isinstance(target, ast.Attribute)):
        return False
    return isinstance(best(owner.attrs.get(target.attr, NONE)), kinds) and retention.outlived(m, owner) is not None


def _parameters(function: Value) -> list[str]:
    if not isinstance(function, Func):
        return []
    return [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args)]


def _argument(
    m: Interpreter, wrapped: Wrapped, arg: Value, given: ast.expr | None, *, static: bool, node: ast.AST
) -> None:
    framework = wrapped.options.framework
    one = best(arg)
    if (
        isinstance(one, Tensor)
        and one.varies
        and one.fw in ("jax", "tf", "np")
        and _made_again(m, one)
        and m.world.script
    ):
        if not wrapped.options.relaxed:
            m.add_fact(
                facts.Retraced(
                    use=m.spot(node), birth=one.born, why="an array of another shape", how=wrapped.options.name
                )
            )
        return
    counts = static if framework == "jax" else True
    if not counts:
        return
    spot = m.spot(node)
    if static and isinstance(one, Obj):
        _object(m, wrapped, one, node)
    elif isinstance(one, Func) and m.loops[-1].uid in one.loops:
        m.add_fact(facts.Retraced(use=spot, birth=one.born, why="a new function", how=wrapped.options.name))
    elif framework == "tf" and isinstance(one, Num) and random_numbers.is_drawn(one, numpy=True):
        return  # it becomes a tensor
    elif isinstance(one, Num) and one.varies and _long(loop := _changed_by(m, given)):
        m.add_fact(
            facts.Retraced(use=spot, birth=m.spot(loop.node), why="a different Python number", how=wrapped.options.name)
        )


def _object(m: Interpreter, wrapped: Wrapped, one: Obj, node: ast.AST) -> None:
    """A static argument that is a new object in each iteration, whose numbers and arrays could be arguments themselves."""
    loop = next((loop for loop in reversed(m.loops) if loop.uid in one.loops), None)
    if loop is None or not (_long(loop) and m.world.script) or one.cls is None or not _by_identity(one.cls):
        return
    around = {loop.uid}
    held = [part for value in one.attrs.values() for part in inside(value)]
    shaped = any(isinstance(part, Tensor) and part.varies for part in held)
    numbers = {name for name, value in one.attrs.items() if "number" in _kind(value, around, 0)}
    kinds = {kind for value in one.attrs.values() for kind in _kind(value, around, 0)}
    if shaped or not kinds <= {"number", "array"} or numbers & syntax.counted_through(one.cls.node):
        return
    m.add_fact(facts.Retraced(use=m.spot(node), birth=one.born, why="a new object", how=wrapped.options.name))


def _by_identity(cls: Class) -> bool:
    """Whether each object of a class is another key: the class says nothing else about equality."""
    if cls.node.decorator_list or cls.find("__eq__") is not None or cls.find("__hash__") is not None:
        return False
    return all(
        _by_identity(base) if isinstance(base, Class) else isinstance(base, Ref) and base.name == "builtins.object"
        for base in cls.bases
    )


def _made_again(m: Interpreter, one: Tensor) -> bool:
    """Whether the innermost of the loops that make an array anew may have many iterations."""
    inner = next((loop for loop in reversed(m.loops) if loop.uid in one.loops), None)
    return inner is not None and _long(inner)


def _changed_by(m: Interpreter, given: ast.expr | None) -> Loop:
    """The loop in whose iterations an argument differs: the one that binds its names, or one around the function."""
    names = {one.id for one in ast.walk(given) if isinstance(one, ast.Name)} if given is not None else set()
    outer: list[Loop] = []
    for loop in reversed(m.loops):
        if names & _bound(loop.node):
            return loop
        if loop.function != m.frame.function:
            outer.append(loop)
    return outer[0] if outer and names else m.loops[-1]


def _bound(loop: ast.AST) -> set[str]:
    known: set[str] | None = getattr(loop, "tenure_bound", None)
    if known is None:
        stored = (one for one in ast.walk(loop) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
        known = loop.tenure_bound = {one.id for one in stored}  # type: ignore[attr-defined]
    return known


def _long(loop: Loop) -> bool:
    """Whether the loop may have many turns: over a handful, as written, nothing grows."""
    return syntax.many_turns(loop, few=8)
