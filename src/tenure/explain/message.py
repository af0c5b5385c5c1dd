"""What frameworks tell inside their messages: the user's code below a trace, and where a value was made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tenure.explain.raised import Raised

Told: TypeAlias = tuple[str, int, str, str]  # file, line, function, text

_FILE = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>[^\n*]+?)[ ]*\*?[ ]*$')
# TensorFlow: a tensor that is out of scope; then, of a node that failed in a session or in a graph, where it was built.
_DEFINED = (
    re.compile(r"was defined here:[ ]*\n"),
    re.compile(r"Original stack trace for .*:[ ]*\n"),
    re.compile(r"Detected at node .* defined at .*:[ ]*\n"),
)
_CREATED = re.compile(r"was created on line (?P<file>.+?):(?P<line>\d+):\d+ \((?P<function>[^\n]*?)\)")
_JAX_STACK = re.compile(r"^(?P<file>[^\s:][^\n]*?):(?P<line>\d+):\d+ \((?P<function>[^\n]*)\)$", re.MULTILINE)
_INNER = re.compile(r"^    (?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Warning)[\w]*)(?::|$)", re.MULTILINE)


def user_code(text: str) -> Iterator[Told]:
    """The frames of `in user code:`, outermost first. AutoGraph marks the converted ones with a star."""
    start = text.find("in user code:")
    if start < 0:
        return
    lines = text[start:].splitlines()[1:]
    for at, line in enumerate(lines):
        found = _FILE.match(line)
        if found:
            shown = lines[at + 1].strip() if at + 1 < len(lines) and not _FILE.match(lines[at + 1]) else ""
            yield found["file"], int(found["line"]), found["function"].strip(), shown
        elif _INNER.match(line):
            return


def inner_kind(text: str) -> str:
    """The kind of exception that stands inside `in user code:`."""
    if "in user code:" not in text:
        return ""
    found = _INNER.search(text)
    return found["kind"].rpartition(".")[2] if found else ""


def birth(text: str) -> list[Told]:
    """The stack at the birth of the value that the message is about, outermost first."""
    created = _CREATED.search(text)
    if created:
        stack = [(m["file"], int(m["line"]), m["function"], "") for m in _JAX_STACK.finditer(text, created.end())]
        last = (created["file"], int(created["line"]), created["function"], "")
        return stack if stack and stack[-1][:2] == last[:2] else [*stack, last]
    defined = next((found for pattern in _DEFINED if (found := pattern.search(text))), None)
    if not defined:
        return []
    frames: list[Told] = []
    for line in text[defined.end() :].splitlines():
        frame = _FILE.match(line)
        if frame:
            frames.append((frame["file"], int(frame["line"]), frame["function"].strip(), ""))
        elif line.strip() and not line.startswith(" "):
            break
    return frames


def nested(text: str) -> list[Raised]:
    """Exceptions whose whole traceback stands in the message of another (callbacks, workers, remote calls)."""
    if "Traceback (most recent call last)" not in text:
        return []
    from tenure.explain import text as texts

    return texts.parse(text)
