"""Which statements of the user's put things into a container, or a value into a name, as the source says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tenure import untrusted
from tenure.analysis.leaks.assignments import last, last_line
from tenure.model import Link, Site

_ADDING = ("append", "add", "extend", "insert", "appendleft", "update", "setdefault", "put", "put_nowait", "push")
_SEVERAL = ("extend", "update")  # their argument holds what is added
_IN_PLACE = re.compile(r"[a-z]\w*[a-z0-9]_")  # torch's methods that write into their tensor
_NO_VALUE = ("requires_grad_", "detach_", "zero_", "fill_", "clamp_", "share_memory_", "retain_grad_", "mul_", "div_")
_LOOSE = (ast.BinOp, ast.UnaryOp)
_TIGHT = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
_EMPTY = (ast.Constant, ast.List, ast.Dict, ast.Set)


@dataclass(frozen=True, slots=True)
class Store:
    """A statement that stores: where it is, how ("add", "set item", "set", "augment", "write", "hook"), and of what.

    "write" is a method of the tensor itself, such as `add_`.
    `value` is the source of what is stored or added, and `span` where it stands (lines and columns from 1), if it is
    one value that could be another; `loose` says that it needs parentheses before a method can be called on it.
    `uses_itself` says that the new value is made of the old one, by `+` or by a call (`call`). `keys` are the subscripts
    between the name and what is added to, "" where one is no constant. `node` is the value, `scope` the function, `last`
    the statement's last line. `of_attribute` says that the name is an attribute's.
    """

    site: Site
    how: str
    value: str = ""
    span: tuple[tuple[int, int], tuple[int, int]] | None = None
    loose: bool = False
    uses_itself: str = ""
    function: str = ""
    keys: tuple[str, ...] = ()
    node: ast.expr | None = field(default=None, compare=False)
    scope: ast.AST | None = field(default=None, compare=False)
    last: int = 0
    of_attribute: bool = False

    @property
    def text(self) -> str:
        """The value as it is written, with its comments and line breaks."""
        return untrusted.between(self.site.file, *self.span) if self.span else self.value


def stores(files: Iterable[str], name: str) -> list[Store]:
    """The statements in these files that add to, or set, what goes by this name."""
    found: list[Store] = []
    for file in dict.fromkeys(files):
        found.extend(store for own, store in _all(file) if own == name)
    return found


def reaching(found: list[Store], link: Link) -> list[Store]:
    """Return the statements that mean this variable: of a local one, those in its function, else those that got it as an argument."""
    if link.kind != "local" or link.site is None:
        return found
    named, line = link.site.function.rpartition(".")[2], link.site.line
    functions = [
        node
        for node in ast.walk(tree(link.site.file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == named
        and node.lineno <= line <= last_line(node)
    ]
    if not functions:
        return found
    own = max(functions, key=lambda node: node.lineno)
    inside = [
        store
        for store in found
        if store.site.file == link.site.file and own.lineno <= store.site.line <= last_line(own)
    ]
    name = re.split(r"\W", link.text)[0]
    passed = [store for store in found if any(one.arg == name for one in _arguments(store.scope))]
    return inside or passed or found


def _arguments(scope: ast.AST | None) -> list[ast.arg]:
    arguments = getattr(scope, "args", None)
    return [] if arguments is None else [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def sets_attribute(files: Iterable[str], name: str) -> bool:
    """Return whether a statement in these files sets such an attribute of any object, or adds to what it has there."""
    return any(own == name and store.of_attribute for file in dict.fromkeys(files) for own, store in _all(file))


def hooks(files: Iterable[str]) -> list[Store]:
    """The statements in these files that register hooks; `value` is what is registered."""
    found: list[Store] = []
    for file in dict.fromkeys(files):
        found.extend(store for own, store in _all(file) if own == "<hook>")
    return found


def calls(files: Iterable[str], method: str, argument: str) -> list[Site]:
    """Where a method is called with this keyword argument set true: `backward(retain_graph=True)`."""
    found = []
    for file in dict.fromkeys(files):
        for node in ast.walk(tree(file)):
            if not isinstance(node, ast.Call) or last(node.func) != method:
                continue
            if any(word.arg == argument and isinstance(word.value, ast.Constant) and word.value.value is True for word in node.keywords):  # fmt: skip
                found.append(Site(file, node.lineno))
    return found


def hook_functions(files: Iterable[str]) -> frozenset[str]:
    """Return the names of functions that these files register as hooks, and of those defined in a function that makes one."""
    files = list(dict.fromkeys(files))
    named = {word for hook in hooks(files) for word in re.findall(r"\w+", hook.value)}
    makers = (
        node
        for file in (files if named else ())
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef) and node.name in named
    )
    return frozenset(
        named | {inner.name for maker in makers for inner in ast.walk(maker) if isinstance(inner, ast.FunctionDef)}
    )


def with_jitted_body(site: Site, calls: tuple[str, ...]) -> str:
    """Return which of these the line calls with a function that is jitted in the same function or loop, or ""."""
    repeated = (ast.FunctionDef, ast.AsyncFunctionDef, ast.For, ast.While)
    around = [
        node
        for node in ast.walk(tree(site.file))
        if isinstance(node, repeated) and node.lineno < site.line <= last_line(node)
    ]
    if not around:
        return ""
    inside = list(ast.walk(max(around, key=lambda node: node.lineno)))
    jitted = set()
    for node in inside:
        match node:
            case ast.FunctionDef(name=name, decorator_list=[*decorators]):
                jitted |= {name} if any(is_name(part, "jit") for one in decorators for part in ast.walk(one)) else set()
            case ast.Assign([ast.Name(name)], ast.Call(function)) if last(function) == "jit":
                jitted.add(name)
    here = (
        node
        for node in inside
        if isinstance(node, ast.Call) and node.lineno <= site.line <= last_line(node) and last(node.func) in calls
    )
    bodies = (node for node in here if any(isinstance(one, ast.Name) and one.id in jitted for one in node.args))
    return next((ast.unparse(node.func) for node in bodies), "")


def mentions(file: str, name: str) -> bool:
    """Whether a file has this name, or functions without one."""
    if name == "<lambda>":
        return any(isinstance(node, ast.Lambda) for node in ast.walk(tree(file)))
    return any(
        is_name(node, name) or (isinstance(node, ast.FunctionDef) and node.name == name)
        for node in ast.walk(tree(file))
    )


@untrusted.cached(64)
def tree(file: str) -> ast.Module:
    """Return a file's syntax tree, empty where it cannot be read."""
    try:
        return ast.parse("".join(untrusted.lines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


@untrusted.cached(64)
def _all(file: str) -> tuple[tuple[str, Store], ...]:
    whole = tree(file)
    return tuple(_found(whole, file, whole))


def _found(node: ast.AST, file: str, scope: ast.AST) -> Iterator[tuple[str, Store]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.Call):
            yield from _statement(child, file, scope)
        yield from _found(child, file, child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else scope)


def _statement(node: ast.AST, file: str, scope: ast.AST) -> Iterator[tuple[str, Store]]:
    line, function = getattr(node, "lineno", 0), getattr(scope, "name", "")
    base = Store(Site(file, line, function), "set", function=function, scope=scope, last=last_line(node))
    if isinstance(node, ast.Call):
        called = node.func
        on = called.value if isinstance(called, ast.Attribute) else called
        base = replace(base, of_attribute=_is_attribute(on))
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        base = replace(base, of_attribute=_is_attribute(node.target))
    match node:
        case ast.Call(ast.Attribute(_, method), args) if method.startswith("register_") and "hook" in method and args:
            yield "<hook>", replace(base, how="hook", value=ast.unparse(args[0]))
        case ast.Call(ast.Attribute(_, "add_param_group"), [group, *_]):  # of an optimizer, by whatever name
            yield "param_groups", replace(_of(replace(base, how="add"), group), span=None, node=None)
        case ast.Call(ast.Attribute(receiver, method), args) if method in _ADDING and args:
            if method != "setdefault" or not isinstance(args[-1], _EMPTY):
                added = _of(replace(base, how="add", keys=_keys(receiver)), args[-1])
                yield last(receiver), replace(added, span=None, node=None) if method in _SEVERAL else added
        case ast.Call(ast.Attribute(receiver, method), args) if args and _writes(method):
            yield last(receiver), _of(replace(base, how="write", uses_itself="call"), args[0])
        case ast.Assign(targets, value):
            for target in targets:
                yield from _assigned(target, value, base)
        case ast.AnnAssign(target, _, value) if value is not None:
            yield from _assigned(target, value, base)
        case ast.AugAssign(target, _, value):
            yield last(target), _of(replace(base, how="augment", uses_itself="+", keys=_keys(target)), _one(value))


def _is_attribute(target: ast.expr) -> bool:
    """Return whether the last name of a target is an attribute's, as `assignments.last` gives it."""
    match target:
        case ast.Subscript(inner) | ast.Call(ast.Attribute(inner)) | ast.Starred(inner):
            return _is_attribute(inner)
    return isinstance(target, ast.Attribute)


def _writes(method: str) -> bool:
    """Return whether a method of a tensor writes a value into it: `add_`, `copy_`, `lerp_`."""
    return method not in _NO_VALUE and _IN_PLACE.fullmatch(method) is not None


def _assigned(target: ast.expr, value: ast.expr, base: Store) -> Iterator[tuple[str, Store]]:
    if isinstance(target, ast.Tuple | ast.List):
        same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        for at, one in enumerate(target.elts):
            if same and isinstance(value, ast.Tuple | ast.List):
                yield from _assigned(one, value.elts[at], base)
            else:  # one of several results: no value of its own that could be another
                yield from ((name, replace(store, span=None)) for name, store in _assigned(one, value, base))
        return
    name, keys = last(target), _keys(target)
    base = replace(base, of_attribute=_is_attribute(target))
    if isinstance(target, ast.Subscript):
        if not isinstance(value, _EMPTY) or _parts(value):
            yield name, _of(replace(base, how="set item", keys=keys), value)
    elif not isinstance(value, _EMPTY):  # that is how a container begins
        how = _itself(value, name)
        added = _one(_added(value, name)) if how == "+" else value
        yield name, _of(replace(base, uses_itself=how), added)


def _of(store: Store, value: ast.expr) -> Store:
    """The store of this value."""
    span = span_of(value, store.site.file)
    return replace(store, value=ast.unparse(value), node=value, span=span, loose=is_loose(value))


def _one(value: ast.expr) -> ast.expr:
    """What a list of one adds: `[loss]` adds `loss`."""
    return value.elts[0] if isinstance(value, ast.List) and len(value.elts) == 1 else value


def _parts(value: ast.expr) -> bool:
    return any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(value))


def end_of_loop(store: Store, method: str) -> tuple[tuple[int, int], str] | None:
    """Return where the innermost loop ends that has this statement and calls the method, and how it is indented."""
    loops = [
        node
        for node in ast.walk(store.scope or ast.Module([], []))
        if isinstance(node, ast.For | ast.AsyncFor | ast.While)
        and node.lineno < store.site.line <= last_line(node.body[-1])
        and any(
            isinstance(inner, ast.Call) and last(inner.func) == method for one in node.body for inner in ast.walk(one)
        )
    ]
    if not loops:
        return None
    loop = max(loops, key=lambda loop: loop.lineno)
    first, final, end = loop.body[0], loop.body[-1], last_line(loop.body[-1])
    text = untrusted.line(store.site.file, end).rstrip("\n")
    rest = text.encode()[final.end_col_offset or 0 :].decode(errors="replace").strip()
    before = untrusted.line(store.site.file, first.lineno)[: first.col_offset]
    ended = isinstance(final, ast.Continue | ast.Break | ast.Return | ast.Raise)
    if ended or before.strip() or (rest and not rest.startswith("#")):
        return None  # nothing can follow, or several statements are on one line
    return (end, len(text) + 1), before


def is_loose(value: ast.expr) -> bool:
    """Return whether a value needs parentheses before a method can be called on it."""
    return isinstance(value, _LOOSE)


def span_of(value: ast.expr, file: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return where a value is that a method can be called on: lines and columns from 1, columns in characters."""
    if not isinstance(value, _TIGHT + _LOOSE) or value.end_lineno is None or value.end_col_offset is None:
        return None
    return (
        (value.lineno, _column(file, value.lineno, value.col_offset)),
        (value.end_lineno, _column(file, value.end_lineno, value.end_col_offset)),
    )


def _column(file: str, line: int, offset: int) -> int:
    """Python counts columns in bytes, an edit in characters."""
    return len(untrusted.line(file, line).encode()[:offset].decode(errors="replace")) + 1


def _keys(node: ast.expr) -> tuple[str, ...]:
    """The subscripts at the end of a target, the outermost container's first; "" for one that is no constant."""
    found: list[str] = []
    while True:
        match node:
            case ast.Subscript(inner, index):
                found.append(f"[{index.value!r}]" if isinstance(index, ast.Constant) else "")
            case ast.Call(ast.Attribute(inner, "setdefault" | "get"), [index, *_]):
                found.append(f"[{index.value!r}]" if isinstance(index, ast.Constant) else "")
            case _:
                return tuple(reversed(found))
        node = inner


def _added(value: ast.expr, name: str) -> ast.expr:
    """What is added to the old value."""
    if isinstance(value, ast.BinOp):
        if is_name(value.left, name):
            return value.right
        return value.left if is_name(value.right, name) else _added(value.left, name)
    return value


def _itself(value: ast.expr, name: str) -> str:
    """How a value is made of what went by this name before: by `+`, by a call, or not."""
    if isinstance(value, ast.BinOp):
        return "+" if any(is_name(side, name) for side in (value.left, value.right)) else _itself(value.left, name)
    if isinstance(value, ast.Call):
        given = [*value.args, *(word.value for word in value.keywords)]
        return "call" if any(is_name(inner, name) for one in given for inner in ast.walk(one)) else ""
    return ""


def is_name(node: ast.AST, name: str) -> bool:
    """Return whether a node is this name, or an attribute of this name."""
    return isinstance(node, ast.Name | ast.Attribute) and last(node) == name
