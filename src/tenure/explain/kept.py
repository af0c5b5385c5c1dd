"""What still holds, or no longer holds, a value behind an exception: views of a buffer, weak maps, attributes with a graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tenure.explain import values
from tenure.explain.flow import is_computed
from tenure.explain.source import Source, dotted, targets_of
from tenure.findings import Edit, Place

if TYPE_CHECKING:
    from tenure.explain.raised import Raised

_EXPORTS = ("frombuffer", "asarray", "from_numpy", "as_tensor", "memoryview", "from_buffer", "ndarray")
_COPIES = {"frombuffer": ".copy()", "asarray": ".copy()"}  # of NumPy's functions
_WEAK_MAPS = ("WeakKeyDictionary", "WeakValueDictionary", "WeakTensorKeyDictionary", "WeakIdKeyDictionary", "WeakSet")
_CUTS = ("detach", "item", "no_grad", "numpy", "tolist")


def exports(raised: Raised) -> tuple[list[Place], tuple[Edit, ...]]:
    """Return where views were made of the buffer that the failing line resizes or closes, and the edit that copies instead."""
    here, source = raised.here, raised.source(raised.here)
    statement = source.statement(here.line) if source and here else None
    wanted = {_tail(name) for name in _changed(statement)} - {""}
    found: list[tuple[Source, ast.Call]] = []
    for near in raised.sources:
        for call in near.calls(*_EXPORTS):
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            is_copied = isinstance(outer := near.parents.get(call), ast.Attribute) and outer.attr in ("copy", "clone")
            if not is_copied and any(_tail(dotted(one)) in wanted for one in given):
                found.append((near, call))
    places = [near.place("birth", call) for near, call in found]
    edits: tuple[Edit, ...] = ()
    if len(found) == 1:
        near, call = found[0]
        module, _, name = dotted(call.func).rpartition(".")
        if module in ("np", "numpy") and name in _COPIES:
            edits = (near.edit(call, near.segment(call) + _COPIES[name]),)
    return places, edits


_LENT = ("from_numpy", "frombuffer", "as_tensor", "asarray", "from_dlpack", "share_memory_", "from_file")


def lent(raised: Raised) -> list[Place]:
    """Return where what the failing line names got memory that torch did not allocate."""
    here, source = raised.here, raised.source(raised.here)
    statement = source.statement(here.line) if source and here else None
    if statement is None:
        return []
    named = {_tail(dotted(node)) for node in ast.walk(statement) if isinstance(node, ast.Name | ast.Attribute)}
    found = []
    for near in raised.sources:
        for call in near.calls(*_LENT):
            bound = near.statement(call.lineno)
            targets = {_tail(dotted(target)) for target in (targets_of(bound) if bound else ())}
            on = _tail(dotted(call.func).rpartition(".")[0])  # of `x.share_memory_()`
            if (targets | {on}) & named or bound is statement:
                found.append(near.place("birth", call))
    return found


def _changed(statement: ast.stmt | None) -> list[str]:
    """What a statement calls a method on or adds to."""
    if statement is None:
        return []
    calls = [
        node for node in ast.walk(statement) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    names = [dotted(call.func).rpartition(".")[0] for call in calls]
    return [*names, *(dotted(target) for target in targets_of(statement)), *map(dotted, _deleted(statement))]


def _deleted(statement: ast.stmt) -> list[ast.expr]:
    return list(statement.targets) if isinstance(statement, ast.Delete) else []


def weak_maps(raised: Raised) -> tuple[list[Place], list[Place]]:
    """Return where the weak map that the failing line reads was made, and where an entry was put into it."""
    here, source = raised.here, raised.source(raised.here)
    statement = source.statement(here.line) if source and here else None
    if statement is None:
        return [], []
    read = {_tail(dotted(node.value)) for node in ast.walk(statement) if isinstance(node, ast.Subscript)}
    made: list[Place] = []
    put: list[Place] = []
    for near in raised.sources:
        names = set()
        for call in near.calls(*_WEAK_MAPS):
            bound = near.statement(call.lineno)
            name = next((_tail(dotted(target)) for target in (targets_of(bound) if bound else ())), "")
            if name in read - {""}:
                names.add(name)
                made.append(near.place("birth", call))
        put += [
            near.place("holder", node)
            for node in (near.nodes if names else ())
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Subscript) and _tail(dotted(target)) in names for target in node.targets)
        ]
    return made, put


def with_graph(raised: Raised) -> tuple[str, Place | None, bool]:
    """Return the attribute or entry of what is copied that carries a graph, where it is set, and whether it was seen."""
    name = ""
    for frame in reversed(raised.user):
        source = raised.source(frame)
        statement = source.statement(frame.line) if source else None
        given = {
            dotted(one)
            for node in ast.walk(statement or ast.Pass())
            if isinstance(node, ast.Call) and dotted(node.func).endswith("deepcopy")
            for one in node.args[:1]
        }
        for path, tensor in values.tensors(frame):
            inside = any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in given if one)
            kind = type(tensor)
            if inside and (kind.__module__, kind.__name__) == ("torch", "Tensor") and tensor.grad_fn is not None:
                name = name or path
    key = name.rpartition(".")[2] if "[" not in name else name
    found = [
        (source, target, node)
        for source in raised.sources
        for node in source.nodes
        if isinstance(node, ast.Assign) and is_computed(node.value) and not _is_cut(source, node)
        for target in node.targets
        if _is_kept(source, target) and (not name or ast.unparse(target) == key or dotted(target).endswith(f".{key}"))
    ]
    if not found:
        return name, None, bool(name)
    source, target, node = found[0]
    return name or ast.unparse(target), source.place("birth", node), bool(name)


def _is_kept(source: Source, target: ast.expr) -> bool:
    function = source.owner(target)
    return isinstance(target, ast.Attribute | ast.Subscript) and getattr(function, "name", "") != "__init__"


def _is_cut(source: Source, node: ast.Assign) -> bool:
    outer = [item for above in source.above(node) if isinstance(above, ast.With) for item in above.items]
    words = {part.attr for one in (node.value, *outer) for part in ast.walk(one) if isinstance(part, ast.Attribute)}
    return bool(words & set(_CUTS))


def _tail(name: str) -> str:
    return name.rpartition(".")[2]
