"""A file of source: its text, its tree, and the names at its top level."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure.findings import Place, Role

if TYPE_CHECKING:
    from tenure.check.values import Spot, Value

# Where nothing of this stands, no rule can fire: such a file is not even parsed.
FRAMEWORKS = re.compile(rb"\b(?:torch|jax|tensorflow|keras|tenure)\b")
# What a function must contain for anything to be certain about it without knowing who calls it.
ALONE = re.compile(
    rb"backward\(|(?<!torch\.)\bjit\b|filter_jit|\bp?pmap\b|\bvmap\b|jax\.grad|value_and_grad|tf\.function|lax\.(?:cond|scan|while|fori|switch|map)"
    rb"|map_fn|while_loop|tf\.cond|Session\(|donate_arg|\.delete\(\)|inference_mode|GradientTape|TensorArray|resize_\(0\)"
    rb"|autograd\.grad|torch\.save|Dataset\.from|def (?:train|test|predict)_step|torch\.func|tenure\.|reset_default_graph|no_grad.*submit|lru_cache|functools\.cache\b"
)
# A file with statements of its own at the top level is a program: it is followed from there.
PROGRAM = re.compile(
    rb"^(?:for |while |with |del |if __name__|[A-Za-z_][\w.]*\[[^\]\n]*\] = |[A-Za-z_][\w, ]* = (?:torch|tf|jnp|jax|keras|nn)\.[\w.]+\("
    rb"|[A-Za-z_][\w.]*\(|[A-Za-z_][\w.]* [-+*/@]= |[A-Za-z_][\w, ]* = (?:[a-z_]+\(|[\[{(].*\bfor\b))",
    re.MULTILINE,
)


class Module:
    """One file. `names` are filled while it is followed."""

    def __init__(self, file: str, text: str, tree: ast.Module, qualified: str = "") -> None:
        self.file = file
        self.text = text
        self.lines = text.split("\n")
        self.tree = tree
        self.qualified = qualified
        self.frame: Any = None
        self.followed = False

    @property
    def names(self) -> dict[str, Value]:
        """The names at its top level, as far as it was followed."""
        return self.frame.names if self.frame is not None else {}

    def line(self, number: int) -> str:
        """The text of a line."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def column(self, line: int, offset: int) -> int:
        """The column in characters, from 1, of an offset in bytes, as `ast` has them."""
        text = self.line(line)
        return offset + 1 if text.isascii() else len(text.encode()[:offset].decode(errors="replace")) + 1

    def place(self, role: Role, spot: Spot) -> Place:
        """A place of a finding."""
        node = spot.node
        line = int(getattr(node, "lineno", 1))
        column = self.column(line, int(getattr(node, "col_offset", 0)))
        return Place(role, self.file, line, spot.function, self.line(line).strip(), column)

    def slice(self, node: ast.AST) -> str:
        """The source of a node."""
        return ast.get_source_segment(self.text, node) or ""


def triggers(raw: bytes) -> list[int] | None:
    """The lines that make a function worth following alone, in order; None if no rule can find anything in the file."""
    if not FRAMEWORKS.search(raw):
        return None
    found: list[int] = []
    line, at = 1, 0
    for match in ALONE.finditer(raw):
        line += raw.count(b"\n", at, match.start())
        at = match.start()
        if not found or found[-1] != line:
            found.append(line)
    return found if found or PROGRAM.search(raw) else None


def parse(raw: bytes | str, file: str) -> ast.Module:
    """The tree. Raises SyntaxError, ValueError, RecursionError or MemoryError as `ast` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes and literals: other tools tell of them
        return ast.parse(raw, file)


def find_module(name: str, level: int, here: str, roots: tuple[Path, ...]) -> Path | None:
    """The file of an imported module, looked for beside the importing file and at the roots of what is checked."""
    parts = name.split(".") if name else []
    folder = Path(here).parent
    if level:
        for _ in range(level - 1):
            folder = folder.parent
        return _file_in(folder, parts)
    if not parts or parts[0] in _FOREIGN:
        return None
    for root in (folder, *roots):
        if (found := _file_in(root, parts)) is not None:
            return found
    return None


_FOREIGN = frozenset(
    [
        "torch",
        "jax",
        "tensorflow",
        "keras",
        "numpy",
        "functools",
        "collections",
        "os",
        "sys",
        "math",
        "typing",
        "itertools",
        "time",
        "logging",
        "contextlib",
        "dataclasses",
        "pathlib",
        "random",
        "json",
        "re",
        "abc",
        "warnings",
        "copy",
        "threading",
        "queue",
        "gc",
        "weakref",
        "concurrent",
    ]
)


def _file_in(folder: Path, parts: list[str]) -> Path | None:
    path = folder.joinpath(*parts)
    for found in (path.with_suffix(".py") if parts else path / "__init__.py", path / "__init__.py"):
        try:
            if found.is_file():
                return found
        except OSError:
            return None
    return None
