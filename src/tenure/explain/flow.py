"""Which values of a function come from which: assignments in order, read from the source, enough to name a likely cause."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tenure.explain.source import Function, Source, dotted, first_line, last_line, targets_of

_DETACHING = ("detach", "detach_", "data", "item", "numpy", "tolist", "repackage", "requires_grad_")


def is_computed(value: ast.expr | None) -> bool:
    """Whether an expression has an operation in it: one without, such as `None`, cannot have made a tensor."""
    if value is None:
        return False
    return any(isinstance(part, ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare) for part in ast.walk(value))


@dataclass(frozen=True)
class Step:
    """One statement that binds something: what it binds, and what it reads, as dotted names."""

    node: ast.stmt
    binds: frozenset[str]
    reads: frozenset[str]
    value: ast.expr | None

    @property
    def line(self) -> int:
        """Where it stands."""
        return self.node.lineno

    @cached_property
    def is_computed(self) -> bool:
        """Whether the value is the result of an operation, not a constant, a name or a container of these."""
        return is_computed(self.value)

    @cached_property
    def detaches(self) -> bool:
        """Whether the value leaves its graph here."""
        return self.value is not None and any(word in _DETACHING for word in _words(self.value))


class Flow:
    """The statements of one function (or of a file's top level), in order."""

    def __init__(self, source: Source, function: Function) -> None:
        self.source = source
        self.function = function

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Everything that is bound, in the order of lines."""
        return tuple(step for node in statements(self.function) for step in _steps(node))

    def last(self, name: str, before: int) -> Step | None:
        """What last bound a name before a line."""
        found = [step for step in self.steps if step.line < before and name in step.binds]
        return found[-1] if found else None

    def cone(self, names: Iterable[str], before: int) -> list[Step]:
        """What these names were computed from, before a line: the latest first."""
        wanted, found = set(names), []
        for step in reversed(self.steps):
            if step.line <= before and meets(wanted, step.binds):
                found.append(step)
                wanted |= step.reads
        return found

    def loops(self, line: int) -> list[ast.For | ast.AsyncFor | ast.While]:
        """The loops around a line, the innermost first."""
        found = [
            node
            for node in statements(self.function)
            if isinstance(node, ast.For | ast.AsyncFor | ast.While) and first_line(node) <= line <= last_line(node)
        ]
        return list(reversed(found))

    def inside(self, loop: ast.AST) -> list[Step]:
        """What is bound in a loop's body."""
        return [step for step in self.steps if first_line(loop) < step.line <= last_line(loop)]

    def reads_at(self, line: int) -> set[str]:
        """What the statement at a line reads."""
        statement = self.source.statement(line)
        return set(reads(statement)) if statement is not None else set()


def statements(function: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a function in order, but not those of functions and classes inside it."""
    todo = list(getattr(function, "body", ())) if isinstance(getattr(function, "body", None), list) else []
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        kinds = (ast.stmt, ast.excepthandler, ast.match_case)
        todo = [*(child for child in ast.iter_child_nodes(node) if isinstance(child, kinds)), *todo]


def _steps(node: ast.stmt) -> Iterator[Step]:
    """What a statement binds; of `a, b = f(x), g(y)` each name has a value of its own."""
    match node:
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values):
            for target, value in zip(targets, values, strict=True):
                if not isinstance(target, ast.Tuple | ast.Starred):
                    yield Step(node, frozenset({dotted(target)}), frozenset(reads(value)), value)
        case _:
            step = _step(node)
            if step is not None:
                yield step


def _step(node: ast.stmt) -> Step | None:
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        value = node.value
        read = set(reads(value)) if value is not None else set()
        if isinstance(node, ast.AugAssign):
            read.add(dotted(node.target))
        return Step(node, frozenset(dotted(target) for target in targets_of(node)), frozenset(read), value)
    if isinstance(node, ast.For | ast.AsyncFor):
        return Step(node, frozenset(dotted(t) for t in targets_of(node)), frozenset(reads(node.iter)), node.iter)
    if isinstance(node, ast.With | ast.AsyncWith) and targets_of(node):
        value = node.items[0].context_expr
        return Step(node, frozenset(dotted(t) for t in targets_of(node)), frozenset(reads(value)), value)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        # `losses.append(x)` binds what it is called on; `x.detach_()` too.
        call = node.value
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            return None  # nothing is bound by `x.sum().backward()`
        keeper = dotted(call.func).rpartition(".")[0]
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        read = {name for argument in arguments for name in reads(argument)}
        return Step(node, frozenset({keeper} if keeper else ()), frozenset({*read, keeper} - {""}), call)
    return None


def reads(node: ast.AST) -> Iterator[str]:
    """The dotted names that an expression reads, each as long as it is written."""
    if isinstance(node, ast.Attribute | ast.Name):
        name = dotted(node)
        if name:
            yield name
        if not isinstance(node, ast.Name) and not _is_chain(node):
            yield from reads(node.value)
        return
    for child in ast.iter_child_nodes(node):
        yield from reads(child)


def _is_chain(node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _words(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            yield from (word for word in _DETACHING if word in part.func.id)


def meets(wanted: Iterable[str], bound: Iterable[str]) -> bool:
    """Whether something wanted is bound: `z` binds `z.mean`, `self.h` does not bind `self`."""
    return any(want == name or want.startswith(name + ".") for want in wanted for name in bound if name)
