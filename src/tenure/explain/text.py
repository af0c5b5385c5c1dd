"""Tracebacks as people paste them: plain, chained, grouped, from notebooks and pytest, with a logger's words before each line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenure.explain.raised import Frame, Raised

_LONGEST = 400_000  # characters that are looked at: the end of the log, where the failure is
_MOST = 50  # tracebacks

_HEAD = re.compile(r"Traceback \(most recent call last\):?\s*$")
_CHAINED = re.compile(
    r"^(?:During handling of the above exception, another exception occurred|"
    r"The above exception was the direct cause of the following exception|"
    r"The preceding stack trace is the source of the JAX operation)"
)
_END = re.compile(r"^(?:-{20,}$|={20,}|_{20,}|For simplicity, JAX has removed|\"\"\"$)")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$')
# IPython: `File ~/x.py:12, in f(a)`, `Cell In[3], line 5`, `<ipython-input-3-1f> in <module>`, `/x.py in f(a, b)`.
_CELL = re.compile(r"^(?:(?:Input |Cell )In ?\[\d+\],? (?:line (?P<line>\d+)|in .*))")
_IPYTHON = re.compile(r"^File (?P<file>[^\s].*?):(?P<line>\d+)(?:, in (?P<function>.*?))?\s*$")
_OLD_IPYTHON = re.compile(r"^(?P<file>(?:/|~|<ipython-input|[A-Z]:\\)\S*?) in (?P<function>[^\s].*?)\s*$")
_ARROW = re.compile(r"^-+> ?(?P<line>\d+) (?P<text>.*)$")
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*)|:?\s*$)")
_BARE = re.compile(
    r"^(?:E\s+)?(?P<kind>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Released|Closed|Taken|Missing)): (?P<message>\S.*)$"
)
_PYTEST = re.compile(r"^(?P<file>[^\s:][^:]*\.py):(?P<line>\d+): (?:in (?P<function>\S+)|(?P<kind>[A-Z]\w*))?\s*$")
# What loggers, launchers and shells put before every line.
_PREFIXES = (
    re.compile(r"^\[?(?:rank|worker|node)[ _-]?\d+\]?:? ?"),
    re.compile(r"^\([^()\n]*pid=\d+[^()\n]*\) ?"),
    re.compile(r"^\S+\s+\| ?(?=\s|Traceback|File|\w+Error)"),
    re.compile(
        r"^\[?\d{4}-\d\d-\d\d[T ][\d:.,]+Z?[^\s]*\]?(?: ?(?:\[?[A-Z]+\]?|[\w.]+|[-:|]))*?[ :|-]{1,3}(?=Traceback|  |[A-Z]\w+: |During|The above|\s*$)"
    ),
    re.compile(r"^(?:stderr|err|E|!|>)[:|>]? (?=\s*File|Traceback|[A-Z]\w*Error)"),
)
_GROUP = re.compile(r"^\s*(?:\|\s?|\+ (?=Exception Group)|\+-[+-].*$)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def parse(text: str) -> list[Raised]:
    """The exceptions in a text, in its order. Those that one came from are its causes."""
    text = text[-_LONGEST:]
    lines = [_plain(line) for line in text.splitlines()]
    found: list[Raised] = []
    causes: list[Raised] = []
    at = 0
    while at < len(lines) and len(found) < _MOST:
        if not _HEAD.search(lines[at]):
            at += 1
            continue
        raised, at = _one(lines, at, text)
        if raised is None:
            continue
        raised.causes = tuple(causes)
        for cause in causes:
            cause.outer = raised
        if at < len(lines) and _CHAINED.match(lines[at]):
            causes = [raised]
            continue
        found.append(raised)
        causes = []
    return found or [*causes] or list(_pytest(lines, text)) or list(_bare(lines, text))


def _plain(line: str) -> str:
    line = _COLOUR.sub("", line).rstrip("\r")
    line = _GROUP.sub("", line)
    for prefix in _PREFIXES:
        line, times = prefix.subn("", line, count=1)
        if times:
            return line
    return line


def _one(lines: list[str], at: int, log: str) -> tuple[Raised | None, int]:
    """One traceback from its head on, and the line behind it."""
    # A notebook names the kind in the head; a failing py_function names the exception in the line before.
    notebook = re.match(r"^(?P<kind>[A-Za-z_][\w.]*)\s+Traceback", lines[at])
    before = _RAISED.match(lines[at - 1]) if at else None
    frames: list[Frame] = []
    at += 1
    while at < len(lines):
        line = lines[at]
        if _HEAD.search(line) or _CHAINED.match(line):
            break
        taken = _frame(lines, at)
        if taken is not None:
            frame, at = taken
            frames.append(frame)
            continue
        if line[:1].isspace() or not line or _ARROW.match(line) or _numbered(line) or _CELL.match(line):
            at += 1
            continue
        raised = _RAISED.match(line)
        if raised is None or (_END.match(line) and not frames):
            at += 1
            continue
        kind, words, at = _words(lines, at, raised)
        return _made(kind, words, frames, log), at
    if notebook or (frames and before and before["message"]):
        kind, words = (notebook["kind"], "") if notebook else (before["kind"], before["message"])  # type: ignore[index]
        return _made(kind, words or "", frames, log), at
    return None, at


def _made(kind: str, words: str, frames: list[Frame], log: str) -> Raised:
    module, _, name = kind.rpartition(".")
    return Raised(name, words, tuple(frames), module, log=log)


def _frame(lines: list[str], at: int) -> tuple[Frame, int] | None:
    """A frame that begins at this line, and the line behind it."""
    line = lines[at]
    found = _FRAME.match(line)
    if found:
        shown = lines[at + 1].strip() if at + 1 < len(lines) else ""
        is_text = bool(shown) and lines[at + 1][:1].isspace() and not _FRAME.match(lines[at + 1])
        frame = Frame(found["file"], int(found["line"]), found["function"] or "<module>", shown if is_text else "")
        return frame, at + (2 if is_text else 1)
    found = _IPYTHON.match(line) or _CELL.match(line) or _OLD_IPYTHON.match(line)
    if not found:
        return None
    told = found.groupdict()
    number, shown, behind = int(told.get("line") or 0), "", at + 1
    while behind < len(lines) and (_ARROW.match(lines[behind]) or _numbered(lines[behind])):
        arrow = _ARROW.match(lines[behind])
        if arrow:
            number, shown = number or int(arrow["line"]), arrow["text"].strip()
        behind += 1
    file = told.get("file") or line.partition(",")[0].strip()
    return Frame(file, number or 1, told.get("function") or "<module>", shown), behind


def _numbered(line: str) -> bool:
    """A line of source as IPython shows it."""
    return re.match(r"^\s*\d+(?:\s|$)", line) is not None


def _words(lines: list[str], at: int, raised: re.Match[str]) -> tuple[str, str, int]:
    """The kind, the whole message, and the line behind it."""
    words = [raised["message"] or ""]
    at += 1
    while at < len(lines):
        line = lines[at]
        # JAX draws rules of 30 dashes inside its message; the one behind it has 20, a notebook's has 75.
        inside = line == "-" * 30
        if _CHAINED.match(line) or _HEAD.search(line) or (_END.match(line) and not inside):
            break
        words.append(line)
        at += 1
    while at < len(lines) and not lines[at].strip():
        at += 1
    return raised["kind"], "\n".join(words).rstrip(), at


def _pytest(lines: list[str], log: str) -> Iterator[Raised]:
    """A failure as pytest shows it: places at the margin, the exception behind `E`."""
    frames: list[Frame] = []
    words: list[str] = []
    kind = ""
    for line in lines:
        place = _PYTEST.match(line)
        said = re.match(r"^E   (?P<rest>.*)$", line)
        if said:
            bare = _BARE.match(line)
            if bare and not kind:
                kind, words = bare["kind"], [bare["message"]]
            elif kind:
                words.append(said["rest"].removeprefix("    "))
        elif place:
            frames.append(Frame(place["file"], int(place["line"]), place["function"] or "<module>"))
            if kind and place["kind"]:
                yield _made(kind, "\n".join(words), frames, log)
                kind, frames = "", []


def _bare(lines: list[str], log: str) -> Iterator[Raised]:
    """Only the last line of a traceback, as people search for it."""
    for at, line in enumerate(lines):
        found = _BARE.match(line.strip())
        if found:
            yield _made(found["kind"], "\n".join([found["message"], *lines[at + 1 : at + 40]]), [], log)
            return
