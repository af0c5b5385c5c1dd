"""Questions about values: what one can be, what is in it, what two become where branches meet."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.check.abstract_values import (
    Class,
    Const,
    Either,
    Func,
    Map,
    Node,
    Num,
    Obj,
    Ref,
    Seq,
    Spot,
    Tensor,
    Value,
    Wrapped,
)

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
    arrays = [one for one in found if isinstance(one, Tensor)]
    for array in arrays if len(arrays) > 1 else ():
        array.state.alternative = True
    relate([array.node for array in arrays])
    return found[0] if len(found) == 1 else Either(tuple(found[:6]))


def relate(nodes: Sequence[Node | None]) -> None:
    """Note steps of which only one is followed from here on: what is done with it may be done with any of them."""
    known = [node for node in nodes if node is not None]
    for one in known if len(known) > 1 else ():
        others = [node for node in known if node is not one]
        # What was done with a graph that is freed already was not done with this one.
        earlier = [node for node in others if isinstance(node.state.freed, Spot)] if one.state.freed is None else []
        one.state.joined = one.state.joined or bool(earlier)
        if len(one.state.alternatives) < 12:
            one.state.alternatives = (*one.state.alternatives, *(node for node in others if node not in earlier))


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
            one.state.read = True


def tensors(value: Value) -> list[Tensor]:
    """The tensors in a value, unknown ones among them."""
    return [one for one in inside(value) if type(one) is Tensor]
