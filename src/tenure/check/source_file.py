"""A file of source: its text, its tree, and which lines make it worth following."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from tenure.check import syntax

# Where nothing of this stands, no rule can fire: such a file is not even parsed.
FRAMEWORKS = re.compile(rb"\b(?:torch|jax|tensorflow|keras|tenure)\b")
# What a function must contain for anything to be certain about it without knowing who calls it: patterns within a line, by
# bytes that each of their matches contains. To look for these first takes a fifth of the time.
ALONE = {
    b"backward(": rb"backward\(",
    b"jit": rb"(?<!torch\.)\bjit\b|filter_jit",
    b"pmap": rb"\bp?pmap\b",
    b"vmap": rb"\bvmap\b",
    b"jax.grad": rb"jax\.grad",
    b"value_and_grad": rb"value_and_grad",
    b"tf.function": rb"tf\.function",
    b"lax.": rb"lax\.(?:cond|scan|while|fori|switch|map)",
    b"map_fn": rb"map_fn",
    b"while_loop": rb"while_loop",
    b"tf.cond": rb"tf\.cond",
    b"Session(": rb"Session\(",
    b"donate_arg": rb"donate_arg",
    b".delete()": rb"\.delete\(\)",
    b"inference_mode": rb"inference_mode",
    b"GradientTape": rb"GradientTape",
    b"TensorArray": rb"TensorArray",
    b"resize_(0)": rb"resize_\(0\)",
    b"autograd.grad": rb"autograd\.grad",
    b"torch.save": rb"torch\.save",
    b"Dataset.from": rb"Dataset\.from",
    b"_step": rb"def (?:train|training|test|predict)_step",
    b"def compute_loss": rb"def compute_loss",
    b"torch.func": rb"torch\.func",
    b"tenure.": rb"tenure\.",
    b"reset_default_graph": rb"reset_default_graph",
    b"submit": rb"no_grad.*submit",
    b"lru_cache": rb"lru_cache",
    b"functools.cache": rb"functools\.cache\b",
}
_ALONE = {literal: re.compile(pattern) for literal, pattern in ALONE.items()}
# A file with statements of its own at the top level is a program: it is followed from there.
PROGRAM = re.compile(
    rb"^(?:for |while |with |del |if __name__|[A-Za-z_][\w.]*\[[^\]\n]*\] = |[A-Za-z_][\w, ]* = (?:torch|tf|jnp|jax|keras|nn)\.[\w.]+\("
    rb"|(?:async )?def [A-Za-z_]\w*\(\)|[A-Za-z_][\w.]*\(|[A-Za-z_][\w.]* [-+*/@]= |[A-Za-z_][\w, ]* = (?:[a-z_]+\(|[\[{(].*\bfor\b))",
    re.MULTILINE,
)


class SourceFile:
    """One file: its text, its lines and its tree."""

    def __init__(self, file: str, text: str, tree: ast.Module) -> None:
        self.file = file
        self.text = text
        self.lines = text.split("\n")
        self.tree = tree

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, in the order of `ast.walk`."""
        return syntax.nodes(self.tree)

    @cached_property
    def read_in_functions(self) -> frozenset[str]:
        """The names that functions and methods read."""
        tops = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return frozenset(
            one.id
            for top in self.tree.body
            if isinstance(top, tops)
            for one in syntax.nodes(top)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
        )

    def line(self, number: int) -> str:
        """The text of a line."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def column(self, line: int, offset: int) -> int:
        """The column in characters, from 1, of an offset in bytes, as `ast` has them."""
        text = self.line(line)
        return offset + 1 if text.isascii() else len(text.encode()[:offset].decode(errors="replace")) + 1

    def slice(self, node: ast.AST) -> str:
        """The source of a node."""
        return ast.get_source_segment(self.text, node) or ""


def triggers(raw: bytes) -> list[int] | None:
    """The lines that make a function worth following alone, in order; None if no rule can find anything in the file."""
    if not FRAMEWORKS.search(raw):
        return None
    starts = {start for literal, pattern in _ALONE.items() for start in _matching_lines(raw, literal, pattern)}
    found: list[int] = []
    line, at = 1, 0
    for start in sorted(starts):
        line += raw.count(b"\n", at, start)
        at = start
        found.append(line)
    return found if found or PROGRAM.search(raw) else None


def _matching_lines(raw: bytes, literal: bytes, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Where the lines begin that match a pattern, all of whose matches contain `literal`."""
    at = raw.find(literal)
    while at >= 0:
        start, end = raw.rfind(b"\n", 0, at) + 1, raw.find(b"\n", at)
        end = end if end >= 0 else len(raw)
        if pattern.search(raw[start:end]):
            yield start
        at = raw.find(literal, end)


def parse(raw: bytes | str, file: str) -> ast.Module:
    """The tree. Raises SyntaxError, ValueError, RecursionError or MemoryError as `ast` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes and literals: other tools report them
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
    package = [one.parent for one in Path(here).parents if one.name == parts[0]]
    for root in (folder, *roots, *package):
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
