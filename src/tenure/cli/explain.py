"""Explain a rule, or the traceback in a log.

For a code such as TN208, tenure prints its page, with an example and what to use instead. For a traceback, it shows
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
import re
import sys
from pathlib import Path

from tenure.errors import TenureError
from tenure.faults import FAULTS
from tenure.findings import Finding
from tenure.views.formats import FORMATS, full, rule_page
from tenure.views.formats.text import is_coloured

_LARGEST = 1 << 28


class Unknown(TenureError):
    """There is neither such a rule nor such a file."""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "what",
        metavar="CODE | LOGFILE | -",
        help="explain this rule, or the traceback in this file (-: standard input)",
    )
    parser.add_argument(
        "--format", choices=sorted(FORMATS), default="full", help="print findings in this format (default: full)"
    )


def run(options: argparse.Namespace) -> int:
    """Print the page, or the findings. Return 1 if a log contains a lifetime error."""
    what = options.what
    if re.fullmatch(r"(?i)tn\d{3}", what) and not Path(what).is_file():
        return _page(what.upper())
    findings = _explained(_read(what))
    if options.format == "full":
        text = full.render(findings, colour=is_coloured(sys.stdout))
        text = text or "No rule explains this.\n"
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
        reason = getattr(error, "strerror", None) or error
        raise Unknown(f"{what} is neither a rule code nor a readable file: {reason}") from error


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


def _same(one: Finding, other: Finding) -> bool:
    return (one.code, one.places) == (other.code, other.places)
