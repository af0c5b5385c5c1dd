"""The source of the functions involved, as trees: which function and statement a line is in, and who is called there."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from tenure import untrusted
from tenure.findings import Edit, Place, Role

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_BODIES = ("body", "handlers", "cases", "orelse", "finalbody")
_LONGEST = 20_000  # lines: a larger file was generated, and to parse it would take seconds


class Source:
    """One file's source. `tree` is empty where the text is no Python that this Python reads."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self.file = file
        self.lines = lines

    @cached_property
    def _text(self) -> str:
        return "".join(self.lines)

    @cached_property
    def tree(self) -> ast.Module:
        """The whole file."""
        if len(self.lines) <= _LONGEST:
            try:
                return ast.parse("".join(self.lines))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                pass
        return ast.Module([], [])

    @cached_property
    def _index(self) -> tuple[list[ast.AST], dict[ast.AST, ast.AST]]:
        # By hand: with `ast.walk` this took as long as the parsing.
        nodes: list[ast.AST] = [self.tree]
        parents: dict[ast.AST, ast.AST] = {}
        for node in nodes:  # which grows meanwhile
            for name in node._fields:
                value = getattr(node, name, None)
                for child in value if isinstance(value, list) else (value,):
                    if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                        parents[child] = node
                        nodes.append(child)
        return nodes, parents

    @property
    def nodes(self) -> list[ast.AST]:
        """Every node, outer before inner."""
        return self._index[0]

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node is part of."""
        return self._index[1]

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """Every statement, outer before inner."""
        return [node for node in self._blocks if isinstance(node, ast.stmt)]

    @cached_property
    def _blocks(self) -> dict[ast.AST, ast.AST | None]:
        """Statements, handlers and cases, and what each stands in. Expressions hold none, and are not looked into."""
        found: dict[ast.AST, ast.AST | None] = {self.tree: None}
        waiting: list[ast.AST] = [self.tree]
        for holder in waiting:  # which grows meanwhile
            for name in _BODIES:
                inner = getattr(holder, name, ())
                found.update(dict.fromkeys(inner, holder))
                waiting.extend(inner)
        return found

    @cached_property
    def functions(self) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
        """Every function that has a name, outer before inner."""
        return tuple(node for node in self.statements if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    def text(self, line: int) -> str:
        """A line, stripped."""
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""

    def place(self, role: Role, at: ast.AST | int, function: str | None = None) -> Place:
        """A place in this file."""
        line = at if isinstance(at, int) else int(getattr(at, "lineno", 1))
        if function is None:
            function = name_of(self.function(line))
        return Place(role, self.file, line, function, self.text(line))

    def edit(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        """`text` in the place of a node. Python counts columns in bytes, an edit in characters."""
        start, end = (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)
        return Edit(self.file, self._column(*start), self._column(*end), text)

    def with_keyword(self, call: ast.Call, keyword: str) -> Edit:
        """A call with one more argument at its end."""
        text = self.segment(call)
        return self.edit(
            call, f"{text[:-1].rstrip().rstrip(',')}{', ' if call.args or call.keywords else ''}{keyword})"
        )

    def _column(self, line: int, offset: int) -> tuple[int, int]:
        return line, len(self.lines[line - 1].encode()[:offset].decode(errors="replace")) + 1

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node, on one line."""
        return " ".join((ast.get_source_segment("".join(self.lines), node) or ast.unparse(node)).split())

    def function(self, line: int) -> Function:
        """The innermost function that has this line, or the file itself."""
        found: Function = self.tree
        for function in self.functions:
            if first_line(function) <= line <= last_line(function):
                found = function
        return found

    def statement(self, line: int) -> ast.stmt | None:
        """The innermost statement that has this line."""
        found = None
        for node in self.statements:
            if first_line(node) <= line <= last_line(node):
                found = node
        return found

    def named(self, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions and methods of that name."""
        return [function for function in self.functions if function.name == name]

    def owner(self, node: ast.AST) -> Function:
        """The function that a node stands in, or the file."""
        at = self.parents.get(node)
        while at is not None and not isinstance(at, _FUNCTIONS):
            at = self.parents.get(at)
        return at if isinstance(at, _FUNCTIONS) else self.tree

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class that a node stands in."""
        return next((above for above in self.above(node) if isinstance(above, ast.ClassDef)), None)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, inner before outer."""
        at = self._blocks.get(node) if node in self._blocks else self.parents.get(node)
        while at is not None:
            yield at
            at = self._blocks.get(at) if at in self._blocks else self.parents.get(at)

    def calls(self, *endings: str) -> list[ast.Call]:
        """The calls of something whose dotted name ends so (`Session`, `.close`), in the order of lines.

        The last word of the name stands in some line of the call, so only the statements of such lines are looked into.
        """
        words = {word for ending in endings if (word := ending.rpartition(".")[2]) in self._text}
        if not words:
            return []
        lines = [number for number, text in enumerate(self.lines, 1) if any(word in text for word in words)]
        found: dict[ast.AST, None] = {}
        for statement in self._at(lines):
            found.update(dict.fromkeys(node for node in ast.walk(statement) if isinstance(node, ast.Call)))
        calls = [call for call in found if isinstance(call, ast.Call) and ends(dotted(call.func), endings)]
        return sorted(calls, key=lambda call: (call.lineno, call.col_offset))

    def _at(self, lines: list[int]) -> list[ast.stmt]:
        """The innermost statements that have these lines, each once."""
        if len(lines) * 4 > len(self.statements):
            return self.tree.body
        innermost = (found for line in lines if (found := self.statement(line)) is not None)
        return list(dict.fromkeys((*innermost, *(one for line in lines for one in self._starting.get(line, ())))))

    @cached_property
    def _starting(self) -> dict[int, list[ast.stmt]]:
        """Statements by the line that they begin on: `a(); b()` has two."""
        found: dict[int, list[ast.stmt]] = {}
        for node in self.statements:
            if not hasattr(node, "body"):
                found.setdefault(node.lineno, []).append(node)
        return found

    @cached_property
    def neighbours(self) -> tuple[Source, ...]:
        """The files beside this one that it imports."""
        folder = Path(self.file).parent
        names: list[str] = []
        for node in self.statements:
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
        paths = [folder.joinpath(*name.split(".")) for name in dict.fromkeys(names)]
        files = [file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
        return tuple(source for file in files[:8] if (source := read(str(file))) is not None)


def read(file: str, module: dict[str, Any] | None = None) -> Source | None:
    """A file's source, also where a loader has it (zipped code, notebooks); None where nobody has."""
    if module is not None and _is_known(module.get("__loader__")):
        linecache.lazycache(file, module)
    try:
        lines = untrusted.lines(file)
    except (OSError, ValueError, SyntaxError, MemoryError):  # no name of a file, or no text in it
        return None
    return Source(file, lines) if lines else None


def _is_known(loader: object) -> bool:
    """Whether the loader is Python's own, pytest's or IPython's: another could do anything when asked."""
    home = type.__dict__["__dict__"].__get__(type(loader)).get("__module__")
    return isinstance(home, str) and home.startswith(
        ("zipimport", "_frozen_importlib", "importlib", "_pytest", "IPython")
    )


def dotted(node: ast.AST | None) -> str:
    """`self.cell.h` for such an expression; calls and items are passed over (`f().x[0].y` is `f.x.y`)."""
    parts: list[str] = []
    while node is not None:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            parts.append(node.id)
            break
        elif isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript | ast.Starred | ast.Await):
            node = node.value
        else:
            break
    return ".".join(reversed(parts))


def ends(name: str, endings: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of these, or ends with one of them after a dot."""
    return any(name == ending.lstrip(".") or name.endswith("." + ending.lstrip(".")) for ending in endings)


def name_of(function: Function) -> str:
    """What Python calls it."""
    if isinstance(function, ast.Module):
        return "<module>"
    return "<lambda>" if isinstance(function, ast.Lambda) else function.name


def first_line(node: ast.AST) -> int:
    """Where it begins, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", None) or []
    line: int = getattr(node, "lineno", 1)
    return min([line, *(decorator.lineno for decorator in decorators)])


def last_line(node: ast.AST) -> int:
    """Where it ends."""
    line: int | None = getattr(node, "end_lineno", None)
    return line or first_line(node)


def names_in(node: ast.AST | None) -> set[str]:
    """The names that an expression reads or writes, attributes too."""
    if node is None:
        return set()
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return found | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def targets_of(statement: ast.stmt) -> list[ast.expr]:
    """What a statement assigns to, tuples taken apart."""
    found: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        found = list(statement.targets)
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        found = [statement.target]
    elif isinstance(statement, ast.With | ast.AsyncWith):
        found = [item.optional_vars for item in statement.items if item.optional_vars is not None]
    flat: list[ast.expr] = []
    while found:
        target = found.pop(0)
        if isinstance(target, ast.Tuple | ast.List):
            found = [*target.elts, *found]
        else:
            flat.append(target.value if isinstance(target, ast.Starred) else target)
    return flat
