"""Notebooks: their code cells as one source, and the way back from its lines to cells.

IPython's own syntax (magics, shell commands, help) becomes Python where a statement begins, as IPython does it, and
line for line. Inside brackets and strings `%`, `!` and `?` are what Python says.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator
from typing import Any

from tenure import untrusted
from tenure.lint.stored_text import plain

# Cell magics that run their cell as Python, in the notebook's names. Other cells are not Python, or of another process.
_PYTHON = frozenset(("time", "capture", "tenure", "prun", "debug", "wandb", "snakeviz", "memit", "mprun", "scalene"))
_LONGEST = 10_000  # characters of a line that may be a magic's
_UNKNOWN = "get_ipython()"  # a value that tells nothing
_TOKENS = re.compile(
    r"""(?P<comment>\#.*)
    |(?P<quote>\"{3}|'{3}|\"|')
    |(?P<magic>(?<![=!<>:+*/%&|^@-])=[ ]*(?:!(?!=)|%[ ]*(?=[A-Za-z_])))
    |(?P<open>[(\[{])|(?P<close>[)\]}])
    |(?P<help>\?)
    |(?P<on>\\$)""",
    re.VERBOSE,
)
_TIMED = re.compile(r"time\s+(?P<statement>\S.*)")
_AUTOMATIC = re.compile(r"""([A-Za-z_]\w*)\s+[-.\w~"'$/]""")


class NotANotebook(ValueError):
    """The file is no notebook."""


def source(raw: bytes) -> tuple[str, list[tuple[int, int]]]:
    """The code of all cells, and for each of its lines the cell (from 1) and the line in it."""
    lines: list[str] = []
    where: list[tuple[int, int]] = []
    for number, text in _code(raw):
        for index, line in enumerate(_as_python(plain(text).split("\n")), 1):
            lines.append(line)
            where.append((number, index))
    # Half of a pair of surrogates can stand in JSON, and in no file of Python.
    return "\n".join(lines).encode(errors="replace").decode() + "\n", where


def _code(raw: bytes) -> Iterator[tuple[int, str]]:
    """The code cells: number and text."""
    try:
        whole: Any = untrusted.parsed(raw)
    except ValueError as error:
        raise NotANotebook(f"it is not a notebook: {error}") from None
    try:
        # Before the fourth version of the format, cells were in worksheets, and source was called input.
        cells = (
            whole["cells"] if "cells" in whole else [cell for sheet in whole["worksheets"] for cell in sheet["cells"]]
        )
        code = [(at, cell) for at, cell in enumerate(cells, 1) if cell.get("cell_type") == "code"]
    except (KeyError, TypeError, AttributeError):
        raise NotANotebook("it is not a notebook: it has no list of cells") from None
    language = _part(_part(whole, "metadata"), "language_info").get("name")
    language = language or _part(_part(whole, "metadata"), "kernelspec").get("language")
    if isinstance(language, str) and "python" not in language.lower():
        return
    for number, cell in code:
        text = cell.get("source", cell.get("input", ""))
        parts = text if isinstance(text, list) else [text]
        if not all(isinstance(part, str) for part in parts):
            raise NotANotebook(f"it is not a notebook: the source of cell {number} is not text")
        yield number, "".join(parts)


def _part(whole: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in an object of JSON; an empty one if it is none."""
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def _as_python(lines: list[str]) -> list[str]:
    """The lines of a cell as Python, as many as there were."""
    lines = _without_margin(lines)
    begin = next((at for at, line in enumerate(lines) if line.strip()), len(lines))
    while begin < len(lines) and lines[begin].startswith("%%"):
        if re.match(r"\w*", lines[begin][2:])[0] not in _PYTHON:  # type: ignore[index]
            return ["pass" if line.strip() else "" for line in lines]
        lines[begin] = "pass"
        begin += 1
    found: list[str] = []
    at = 0
    while at < len(lines):
        statement = _statement(lines, at)
        found += statement
        at += len(statement)
    return ["pass" if line else "" for line in found] if _is_automatic(found) else found


def _is_automatic(lines: list[str]) -> bool:
    """Whether this is a magic without its mark, as in `pip install x`, which must be alone in its cell."""
    texts = [line for line in lines if line.strip()]
    match = _AUTOMATIC.match(texts[0]) if len(texts) == 1 else None
    return match is not None and not keyword.iskeyword(match[1]) and not _parses(texts[0])


def _without_margin(lines: list[str]) -> list[str]:
    """A cell without what stands before all of it: an indentation, or the prompts of a session that was pasted."""
    if lines[0].startswith(">>>"):
        return [re.sub(r"^(?:>>>|\.\.\.)(?: |$)", "", line) for line in lines]
    margin = lines[0][: len(lines[0]) - len(lines[0].lstrip())] if lines[0].strip() else ""
    return [line.removeprefix(margin) for line in lines]


def _statement(lines: list[str], at: int) -> list[str]:
    """The statement that begins with this line, as Python."""
    line = lines[at]
    bare = line.lstrip()
    margin = line[: len(line) - len(bare)]
    if bare.startswith(("%", "!", "?", "/", ",", ";")):
        end = _continued(lines, at)
        return _filled(margin + _line_magic(bare, "pass"), end - at)
    depth, quote = 0, ""
    for end in range(at, len(lines)):
        line = lines[end]
        place = 0
        joined = False
        while place < len(line) or quote:
            if quote:
                place = _after(line, place, quote)
                if place >= 0:
                    quote = ""
                    continue
                if len(quote) == 3 or line.endswith("\\"):
                    joined = True
                else:
                    quote = ""  # not closed: the parser will say so
                break
            match = _TOKENS.search(line, place)
            if match is None or match.lastgroup == "comment":
                break
            place = match.end()
            if match.lastgroup == "quote":
                quote = match[0]
            elif match.lastgroup in ("open", "close"):
                depth = max(0, depth + (1 if match.lastgroup == "open" else -1))
            elif match.lastgroup == "on":
                joined = True
            elif match.lastgroup == "help" and not depth:
                return [*lines[at:end], margin + "pass"] if end == at else lines[at : end + 1]
            elif match.lastgroup == "magic" and not depth:
                last = _continued(lines, end)
                value = _line_magic(line[match.end() - 1 :].lstrip("!"), _UNKNOWN) if "%" in match[0] else _UNKNOWN
                return [*lines[at:end], *_filled(f"{line[: match.start() + 1]} {value}", last - end)]
        if not depth and not joined:
            return lines[at : end + 1]
    return lines[at:]


def _after(line: str, place: int, quote: str) -> int:
    """Where a string ends that is open at this place; -1 if not in this line."""
    while place < len(line):
        if line[place] == "\\":
            place += 2
        elif line.startswith(quote, place):
            return place + len(quote)
        else:
            place += 1
    return -1


def _continued(lines: list[str], at: int) -> int:
    """The line after a magic, which goes on after a backslash at the end of a line."""
    while at < len(lines) - 1 and lines[at].endswith("\\"):
        at += 1
    return at + 1


def _filled(line: str, count: int) -> list[str]:
    return [line] + [""] * (count - 1)


def _line_magic(magic: str, otherwise: str) -> str:
    """What `%time` runs; the text to put in the place of all other magics."""
    if magic.startswith("%tensorflow_version") or ("pip" in magic and "install tensorflow" in magic):
        return f"{otherwise}  # {magic}"  # which TensorFlow it runs in
    timed = _TIMED.fullmatch(magic.lstrip("%").strip())
    if timed is None or not _parses(timed["statement"]):
        return otherwise
    return timed["statement"]


def _parses(text: str) -> bool:
    if len(text) > _LONGEST:
        return False
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
