"""Which of several storing statements put these very tensors where they are: by the path, and by where they come from."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from tenure.analysis.leaks import assignments, lines
from tenure.analysis.leaks.lines import Store
from tenure.model import Link, Site

_FAR = 9  # assignments between a value and where it was created: further ones are not followed
_UNKNOWN = _FAR + 1  # the value may come from another function
_UNRELATED = _FAR + 2


def holding(found: Sequence[Store], keys: Sequence[str], inner: Sequence[Link], born: Sequence[Site]) -> list[Store]:
    """Return the statements that store what was created at `born`, the best match first.

    Arguments:
        found: the statements that store under the right name.
        keys: the subscripts on the way from that name to the container, as the path shows them.
        inner: the links from the container's item to the tensor.
        born: the stack of the creation, innermost first.
    """
    fitting = [narrowed for store in found if _leads(store, keys) and (narrowed := _narrowed(store, inner)) is not None]
    ranked = [(_distance(store, born), store) for store in fitting]
    best = min((distance for distance, _ in ranked), default=_UNRELATED)
    # What was computed from these tensors by way of others is not what holds them, if another value is closer.
    closest = [store for distance, store in ranked if distance == best]
    return [replace(store, span=None) for store in closest] if best == _UNRELATED else closest


def _leads(store: Store, keys: Sequence[str]) -> bool:
    """Return whether the subscripts of a statement can be those of the path: constants must be the same."""
    own = store.keys[: len(keys)] if store.how == "add" else store.keys[: len(store.keys) - (store.how == "set item")]
    return all(one in ("", other) for one, other in zip(own, keys, strict=False))


def _narrowed(store: Store, inner: Sequence[Link]) -> Store | None:
    """Return the store of the part of the stored value that the path goes through; None if it has no such part."""
    value = store.node
    whole = True
    for link in inner:
        if link.kind in ("autograd", "saved", "grad", "view"):
            break
        key = re.sub(r"^[\[.]|\]$", "", link.text)
        if isinstance(value, ast.Dict):
            known = {
                ast.unparse(one): part for one, part in zip(value.keys, value.values, strict=True) if one is not None
            }
            part = known.get(key)
            if part is None:
                if None not in value.keys and all(isinstance(one, ast.Constant) for one in value.keys):
                    return None
                whole = False
                break
            value = part
        elif isinstance(value, ast.Tuple | ast.List) and key.isdigit():
            if any(isinstance(one, ast.Starred) for one in value.elts):
                whole = False
                break
            if int(key) >= len(value.elts):
                return None
            value = value.elts[int(key)]
        elif isinstance(value, ast.Call) and any(word.arg == key for word in value.keywords):
            value = next(word.value for word in value.keywords if word.arg == key)
        else:
            whole = False  # the tensor is part of an object that is stored
            break
    if value is None or (value is store.node and whole):
        return store
    span = lines.span_of(value, store.site.file) if whole else None
    narrowed = replace(store, node=value, value=ast.unparse(value), loose=lines.is_loose(value))
    return replace(narrowed, span=span) if value is not store.node or not whole else store


def _distance(store: Store, born: Sequence[Site]) -> int:
    """Return how many assignments are between the creation and what is stored."""
    if store.scope is None or store.node is None:
        return _UNKNOWN
    at = [site.line for site in born if site.file == store.site.file and assignments.is_inside(store.scope, site.line)]
    if not at:
        return _UNKNOWN
    first, last = store.site.line, max(store.site.line, store.last)
    if any(first <= line <= last for line in at):
        inside = [
            node
            for node in ast.walk(store.node)
            if isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp | ast.Subscript)
        ]
        if inside or store.how != "add":
            return 0
    wanted, known = assignments.names(store.node), set[str]()
    for distance in range(1, _FAR):
        bound = [node for node in assignments.bindings(store.scope) if assignments.bound(node) & wanted]
        if any(assignments.first_line(node) <= line <= assignments.head(node) for node in bound for line in at):
            return distance
        known |= wanted
        wanted = set().union(*(assignments.read(node) for node in bound)) - known
        if not wanted:
            break
    return _UNRELATED
