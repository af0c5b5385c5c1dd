"""Which files to check: those named, and all Python files and notebooks in the folders named."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tenure import untrusted
from tenure.errors import TenureError

_LARGEST = 20_000_000  # bytes: one of 300,000 lines has fewer
_LARGEST_NOTEBOOK = 32 << 20  # with its outputs
_SKIPPED = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        ".tox",
        ".nox",
        ".venv",
        "venv",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".ipynb_checkpoints",
        "node_modules",
        ".eggs",
        "build",
        "dist",
        ".tenure_cache",
        "site-packages",
    ]
)
SUFFIXES = (".py", ".pyi", ".ipynb")


def read(name: str) -> bytes:
    """The content of a file to check. Raises OSError, also for what is not a regular file, or is too large."""
    return untrusted.content(name, _LARGEST_NOTEBOOK if name.endswith(".ipynb") else _LARGEST)


def files(paths: Sequence[str], exclude: Sequence[str] = ()) -> list[str]:
    """All files to check, each once, in order. A path that is not there is an error."""
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            for file in _walk(path, exclude):
                found.setdefault(file)
        elif os.path.exists(path) or os.path.islink(path):
            if not _excluded(path, exclude):
                found.setdefault(path)
        else:
            raise TenureError(f"{path}: no such file or folder")
    return list(found)


def _walk(top: str, exclude: Sequence[str]) -> Iterator[str]:
    # Links to folders are not followed, so a loop of links ends here.
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED and not _excluded(os.path.join(folder, f), exclude))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(SUFFIXES) and not _excluded(path, exclude):
                yield path


def _excluded(path: str, exclude: Sequence[str]) -> bool:
    if not exclude:
        return False
    posix = Path(path).as_posix()
    return any(fnmatch.fnmatch(posix, p) or fnmatch.fnmatch(posix, f"*/{p}") or fnmatch.fnmatch(posix, f"{p}/*")
               or fnmatch.fnmatch(posix, f"*/{p}/*") for p in exclude)  # fmt: skip
