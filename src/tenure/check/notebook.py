"""Notebooks: their code cells as one source, and the way back from its lines to cells."""

from __future__ import annotations

import json
from typing import Any


class NotANotebook(ValueError):
    """The file is no notebook."""


def source(raw: bytes) -> tuple[str, list[tuple[int, int]]]:
    """The code of all cells, and for each of its lines the cell (from 1) and the line in it."""
    try:
        told: Any = json.loads(raw)
        cells = told["cells"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotANotebook(f"it is not a notebook: {error}") from None
    lines: list[str] = []
    where: list[tuple[int, int]] = []
    for number, cell in enumerate(cells if isinstance(cells, list) else [], 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        text = cell.get("source", "")
        text = "".join(text) if isinstance(text, list) else str(text)
        skip = text.lstrip().startswith("%%")
        for index, line in enumerate(text.split("\n"), 1):
            bare = line.lstrip()
            # Magics and shell lines are not Python; a statement in their place keeps blocks whole.
            magic = skip or bare.startswith(("%", "!", "?")) or bare.endswith("?")
            lines.append(line[: len(line) - len(bare)] + "pass" if magic and bare else line)
            where.append((number, index))
    return "\n".join(lines) + "\n", where
