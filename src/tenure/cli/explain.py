"""Explain a rule, or the traceback in a log.

For a code such as TN208, or a name such as donated-buffer, tenure prints its page, with an example and what to use instead. For a traceback, it shows
which value the error is about, where it was created, and where it escaped or was released. It reads the source files
that the traceback names, if they exist here.

  tenure explain TN208
  tenure explain out.log
  python train.py 2>&1 | tenure explain -

Exit code 0: a page was printed, or nothing was found; 1: the log contains a lifetime error; 2: wrong usage, or the
file cannot be read.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
import sys
from pathlib import Path

from tenure.errors import TenureError
from tenure.faults import FAULTS
from tenure.findings import Finding
from tenure.trace import folders
from tenure.views.formats import FORMATS, full, rule_page
from tenure.views.formats.text import clean, is_coloured

_LARGEST = 1 << 28
_CODE = re.compile("tn[0-9]{3}", re.IGNORECASE)
_SHOWN = 100  # characters of a message
_LIFETIME = re.compile(
    r"\b(?:deleted|donated|freed|released|leaked|tracers?|out of scope|no longer|already closed)\b", re.IGNORECASE
)
_NAMES = {fault.name: code for code, fault in FAULTS.items()}


class Unknown(TenureError):
    """There is neither such a rule nor such a file."""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "what",
        metavar="RULE | LOGFILE | -",
        help="explain this rule (code or name), or the traceback in this file (-: standard input)",
    )
    parser.add_argument(
        "--format", choices=sorted(FORMATS), default="full", help="print findings in this format (default: full)"
    )


def run(options: argparse.Namespace) -> int:
    """Print the page, or the findings. Return 1 if a log contains a lifetime error."""
    what = options.what
    if not Path(what).is_file() and (_CODE.fullmatch(what) or what.lower() in _NAMES):
        return _page(_NAMES.get(what.lower(), what.upper()))
    log = _read(what)
    findings = _explained(log)
    if options.format == "full":
        text = full.render(findings, colour=is_coloured(sys.stdout))
        text = text or f"{_unexplained(log, what)}\n"
    else:
        text = FORMATS[options.format](findings)
    sys.stdout.write(text)
    return 1 if findings else 0


def _page(code: str) -> int:
    fault = FAULTS.get(code)
    if fault is None:
        raise Unknown(f"there is no rule {code}; `tenure rules` lists all rules")
    sys.stdout.write(rule_page.render(fault, colour=is_coloured(sys.stdout)))
    return 0


def _read(what: str) -> str:
    if what == "-":
        return sys.stdin.buffer.read(_LARGEST).decode(errors="replace")
    try:
        with Path(what).open("rb") as file:
            return file.read(_LARGEST).decode(errors="replace")
    except (OSError, ValueError) as error:
        if folders.described(Path(what)):
            raise Unknown(f"{what} is a trace; use: tenure report {shlex.quote(what)}") from None
        reason = getattr(error, "strerror", None) or error
        near = difflib.get_close_matches(what.lower(), _NAMES, 1)
        meant = f"; did you mean {near[0]}?" if near and not isinstance(error, IsADirectoryError) else ""
        raise Unknown(f"{what} is neither a rule nor a readable file: {reason}{meant}") from error


def _explained(text: str) -> list[Finding]:
    """Return the findings of a log, each once: a program that is started again fails again."""
    from tenure.explain import driver
    from tenure.explain.text import parse

    found: list[Finding] = []
    for raised in parse(text):
        finding = driver.find(raised)
        if finding is not None and not any(_same(finding, other) for other in found):
            found.append(finding)
    return found


def _unexplained(log: str, what: str) -> str:
    """Return why there is nothing to explain: no traceback, or an exception that no rule matches."""
    from tenure.explain.text import parse

    name = "standard input" if what == "-" else clean(what)
    raised = parse(log)
    if not raised:
        if not log.strip():
            return f"No traceback found in {name}: it is empty."
        script = f"; it is a script: tenure run {shlex.quote(name)}" if what.endswith(".py") else "."
        return f"No traceback found in {name}{script}"
    last = raised[-1]
    first, _, more = last.message.strip().partition("\n")
    first = clean(first)
    shown = f"{last.kind}: {first[:_SHOWN]}{'…' if more or len(first) > _SHOWN else ''}" if first else last.kind
    if _LIFETIME.search(last.message):
        return f"No rule explains `{shown}`, although its text is about the lifetime of something."
    return f"No rule explains `{shown}`: it does not look like an error about tensor lifetimes."


def _same(one: Finding, other: Finding) -> bool:
    return (one.code, one.places) == (other.code, other.places)
