"""Explain a fault, or the traceback in a log: what the value is, where it was made, where it got out or ended.

WHAT is a code (TN208: its page, with a wrong and a right program), a file with the output of a program that failed, or
- for standard input. A traceback that was pasted somewhere will do; where the files it names are here, they are read.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tenure.errors import TenureError
from tenure.faults import FAULTS
from tenure.findings import Finding
from tenure.views.formats import FORMATS, full
from tenure.views.formats.text import is_coloured

_LARGEST = 1 << 28


class Unknown(TenureError):
    """There is nothing to explain."""


def prepare(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("what", metavar="CODE | LOGFILE | -", help="a fault's code, a file, or - for standard input")
    parser.add_argument(
        "--format", choices=sorted(FORMATS), default="full", help="how findings are told (default: full)"
    )


def run(options: argparse.Namespace) -> int:
    """Print the page, or the findings. Exit code 1 if a fault was found in a log."""
    what = options.what
    if re.fullmatch(r"(?i)tn\d{3}", what) and not Path(what).is_file():
        return _page(what.upper())
    findings = _explained(_read(what))
    if options.format == "full":
        text = full.render(findings, colour=is_coloured(sys.stdout))
        text = text or "tenure knows no lifetime fault behind this.\n"
    else:
        text = FORMATS[options.format](findings)
    sys.stdout.write(text)
    return 1 if findings else 0


def _page(code: str) -> int:
    fault = FAULTS.get(code)
    if fault is None:
        raise Unknown(f"there is no fault {code}; `tenure rules` lists them")
    sys.stdout.write(f"{fault.code} {fault.name}\n\n{fault.page.strip()}\n")
    return 0


def _read(what: str) -> str:
    if what == "-":
        return sys.stdin.buffer.read(_LARGEST).decode(errors="replace")
    try:
        with Path(what).open("rb") as file:
            return file.read(_LARGEST).decode(errors="replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unknown(f"{what} is no code of a fault and no file that can be read: {reason}") from error


def _explained(text: str) -> list[Finding]:
    """The findings of a log, each once: a program that is started again fails again."""
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
