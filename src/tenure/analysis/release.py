"""Where a variable could let go of what it holds: the `del` that changes nothing but the memory.

A trace says which line made a buffer, which used it last and where it ended. The source says whose it was. Only if both
agree that a name held it, and no path through the function reads that name again, is there something to write.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenure import untrusted
from tenure.analysis.escapes import escapes, in_graph, parsed
from tenure.findings import Edit
from tenure.model import Site

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_LOOKS_AT_ALL = {"locals", "globals", "vars", "eval", "exec", "dir"}
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


@dataclass(frozen=True, slots=True)
class Release:
    """`names`, of `function` in `file`, are needed no more after the statement in lines `first` to `last`."""

    file: str
    function: str
    names: tuple[str, ...]
    born: int
    first: int
    last: int
    edits: tuple[Edit, ...]
    moved: int | None = None  # the line of a `del` that stands too late

    def inside(self, stack: Sequence[Site]) -> bool:
        """Whether code with this stack runs within the statement."""
        return any(
            site.file == self.file and site.function == self.function and self.first <= site.line <= self.last
            for site in stack
        )

    def bound(self, stack: Sequence[Site]) -> Site | None:
        """Return the frame of the function in the stack of a birth: it was at the assignment then."""
        return next((site for site in stack if (site.file, site.function) == (self.file, self.function)), None)


def release(birth: Sequence[Site], last: Sequence[Site], end: Sequence[Site] | None) -> Release | None:
    """The release of what was born, last used and ended with these stacks (innermost first); None if there is none.

    `end` is None for what never ended.
    """
    if in_graph(birth, last):
        return None
    frames = list(birth)
    while frames:
        site = frames.pop(0)
        if site.function.endswith(_COMPREHENSIONS):
            continue  # the value is that of the statement around
        tree = parsed(site.file)
        if tree is None:
            return None
        function = _function(tree, site.line)
        statement, block = _statement(function, site.line)
        if statement is None or block is None:
            return None
        if isinstance(statement, ast.Return):
            continue  # it is the caller's
        names = _targets(statement)
        if not names:
            return None
        found = _of_names(tree, function, statement, block, names, site, last, end, frames)
        if found is not None or not _returns(function, names):
            return found
    return None


def _of_names(
    tree: ast.Module,
    function: Function,
    statement: ast.stmt,
    block: list[ast.stmt],
    names: tuple[str, ...],
    site: Site,
    last: Sequence[Site],
    end: Sequence[Site] | None,
    callers: Sequence[Site],
) -> Release | None:
    here = [one.line for one in last if (one.file, one.function) == (site.file, site.function)]
    if not here:
        return None
    after = next((one for one in block if one.lineno <= here[0] <= _end(one)), None)
    if after is None or after.lineno < statement.lineno or isinstance(after, _LEAVES):
        return None
    if not _was_held(function, names, site, end, callers):
        return None
    if isinstance(function, ast.Module) and (callers or _global_uses(tree, names)):
        return None
    old = _late_del(function, block, names, after)
    if not _is_safe(function, statement, after, names, old):
        return None
    if escapes(tree, function, names, _end(statement) + 1, old.lineno - 1 if old else _end(function.body[-1])):
        return None
    edits = _edits(site.file, after, names, old)
    if edits is None:
        return None
    return Release(
        site.file, site.function, names, statement.lineno, after.lineno, _end(after), edits, old.lineno if old else None
    )


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _function(tree: ast.Module, line: int) -> Function:
    """The innermost function around a line."""
    found: Function = tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.body[0].lineno <= line <= _end(node):
            found = node  # deeper ones come later
    return found


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for case in getattr(node, "cases", ()):
        yield case.body


def _statement(function: Function, line: int) -> tuple[ast.stmt | None, list[ast.stmt] | None]:
    """The innermost statement at a line, and the block that it stands in."""
    node: ast.AST = function
    found: tuple[ast.stmt | None, list[ast.stmt] | None] = (None, None)
    while True:
        step = next(((one, block) for block in _blocks(node) for one in block if one.lineno <= line <= _end(one)), None)
        if step is None or isinstance(step[0], (*_SCOPES, ast.ClassDef)):
            break
        found, node = step, step[0]
    inner, _ = found
    # The header of a loop or a `with` is no assignment.
    return (None, None) if inner is not None and any(_blocks(inner)) else found


def _targets(statement: ast.stmt) -> tuple[str, ...]:
    """The plain names that a statement binds, and nothing else; an augmented assignment reads what it binds."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names = tuple(part.id for part in parts if isinstance(part, ast.Name))
        return names if len(names) == len(parts) else ()
    if isinstance(statement, ast.AnnAssign) and statement.value is not None and isinstance(statement.target, ast.Name):
        return (statement.target.id,)
    return ()


def _returns(function: Function, names: tuple[str, ...]) -> bool:
    """Whether one of the names is what the function returns."""
    for node in _own(function):
        if isinstance(node, ast.Return) and node.value is not None:
            parts = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else [node.value]
            if any(isinstance(part, ast.Name) and part.id in names for part in parts):
                return True
    return False


def _own(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*_SCOPES, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def _was_held(
    function: Function, names: tuple[str, ...], site: Site, end: Sequence[Site] | None, callers: Sequence[Site]
) -> bool:
    """Whether the end fits a name that let go: bound anew, deleted, or gone when its function returned."""
    if end is None:
        return isinstance(function, ast.Module)  # what a function held alone ends when it returns
    if not end:
        return not callers
    here = [one.line for one in end if (one.file, one.function) == (site.file, site.function)]
    if not here:
        return bool(callers) and end[0] == callers[0]
    return any(
        isinstance(node, ast.Name)
        and node.id in names
        and not isinstance(node.ctx, ast.Load)
        and any(one.lineno <= here[0] <= _end(one) for one in _holders(function, node))
        for node in _own(function)
    )


def _holders(function: Function, node: ast.Name) -> Iterator[ast.stmt]:
    """The plain statement around a name."""
    statement, _ = _statement(function, node.lineno)
    if statement is not None:
        yield statement


def _global_uses(tree: ast.Module, names: tuple[str, ...]) -> bool:
    """Whether a function of the module may read one of its names."""
    for node in ast.walk(tree):
        if isinstance(node, (*_SCOPES, ast.ClassDef)):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and inner.id in names:
                    return True
                if isinstance(inner, ast.Global) and set(inner.names) & set(names):
                    return True
    return any(isinstance(node, ast.Constant) and node.value in names for node in ast.walk(tree))  # __all__, getattr


def _late_del(function: Function, block: list[ast.stmt], names: tuple[str, ...], after: ast.stmt) -> ast.Delete | None:
    """A `del` of just these names that stands further down in the same block."""
    for one in block:
        if isinstance(one, ast.Delete) and one.lineno > _end(after):
            told = [target.id for target in one.targets if isinstance(target, ast.Name)]
            if sorted(told) == sorted(names) and len(told) == len(one.targets):
                return one
    return None


def _is_safe(
    function: Function, statement: ast.stmt, after: ast.stmt, names: tuple[str, ...], old: ast.Delete | None
) -> bool:
    """Whether the names can be deleted after a statement, whatever path the program takes."""
    wanted = set(names)
    first, last = _end(statement) + 1, _end(after)
    loops = [
        node for node in _own(function) if isinstance(node, _LOOPS) and node.lineno <= statement.lineno <= _end(node)
    ]
    top = min((loop.lineno for loop in loops), default=None)
    for node in ast.walk(function):
        if isinstance(node, _SCOPES) and node is not function and _mentions(node, wanted):
            return False
        if isinstance(node, ast.Global | ast.Nonlocal) and wanted & set(node.names):
            return False
        if isinstance(node, ast.Name) and node.id in _LOOKS_AT_ALL:
            return False
        if isinstance(node, ast.ExceptHandler) and node.name in wanted:
            return False
        if not isinstance(node, ast.Name) or node.id not in wanted:
            continue
        if old is not None and old.lineno <= node.lineno <= _end(old):
            continue
        if isinstance(node.ctx, ast.Store):
            continue
        if first <= node.lineno <= last and not isinstance(node.ctx, ast.Del):
            continue
        # Read before: it is another value, unless a loop comes back here. Read after, or in the statement itself: no.
        if node.lineno > last or top is None or node.lineno >= top:
            before = top is None and node.lineno <= _end(statement)
            if not before:
                return False
    return not _augmented(function, wanted, last)


def _augmented(function: Function, names: set[str], last: int) -> bool:
    return any(
        isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id in names
        and node.lineno > last
        for node in ast.walk(function)
    )


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node))


def _edits(file: str, after: ast.stmt, names: tuple[str, ...], old: ast.Delete | None) -> tuple[Edit, ...] | None:
    """A line behind the statement; the late `del` goes. None where the line holds more than the statement."""
    end = _end(after)
    text = untrusted.line(file, end).rstrip("\n")
    rest = text.encode()[after.end_col_offset or 0 :].decode(errors="replace").strip()
    opening = untrusted.line(file, after.lineno)
    indent = opening[: len(opening) - len(opening.lstrip())]
    if (rest and not rest.startswith("#")) or len(indent.encode()) != after.col_offset:
        return None
    at = (end, len(text) + 1)
    found = [Edit(file, at, at, f"\n{indent}del {', '.join(names)}")]
    if old is not None:
        line = untrusted.line(file, old.lineno).rstrip("\n")
        if line.strip() != ast.unparse(old) or old.lineno != _end(old):
            return None
        found.append(Edit(file, (old.lineno, 1), (old.lineno + 1, 1), ""))
    return tuple(found)
