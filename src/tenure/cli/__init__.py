"""The command line: one file a verb, and `main`, which turns what goes wrong into a line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import tenure
from tenure.errors import TenureError

# One verb is one file here, and one line.
VERBS = (
    "run",
    "explain",
    "report",
    "view",
    "sql",
    "diff",
    "export",
    "doctor",
    "check",
    "rules",
    "server",
    "store",
    "top",
)


class Verb(Protocol):
    """What a verb's file holds. Its docstring is its help: the first line stands in the list of verbs."""

    __doc__: str | None

    def prepare(self, parser: argparse.ArgumentParser) -> None:
        """Add its arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it, and say the exit code: 0 if all is well, 1 for findings."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Wrong usage ends with exit code 2 and a line that says what is wrong."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed when Python began
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    words = list(sys.argv[1:] if argv is None else argv)
    # Only the help of all verbs needs all of them.
    verbs = _verbs(words[:1] if words and words[0] in VERBS else VERBS)
    # What follows the script belongs to the script, whatever it looks like.
    split = getattr(verbs.get(words[0]) if words else None, "split", None)
    theirs: list[str] = []
    if split is not None:
        ours, theirs = split(words[1:])
        words = [words[0], *ours]
    try:
        options = _parser(verbs).parse_args(words)
    except SystemExit as told:  # by --help, --version, or wrong usage
        return int(told.code or 0)
    options.command = theirs
    try:
        return verbs[options.verb].run(options)
    except TenureError as error:
        sys.stderr.write(f"tenure: {error}\n")
        return 2
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _verbs(names: Sequence[str]) -> dict[str, Verb]:
    found: dict[str, Any] = {name: importlib.import_module(f"tenure.cli.{name}") for name in names}
    return cast("dict[str, Verb]", found)


def _parser(verbs: dict[str, Verb]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tenure", description=tenure.__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"tenure {tenure.__version__}")
    choices = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in verbs.items():
        summary, _, rest = (verb.__doc__ or "").partition("\n\n")
        one = choices.add_parser(
            name,
            help=summary,
            description=f"{summary}\n\n{rest}".strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        verb.prepare(one)
    return parser
