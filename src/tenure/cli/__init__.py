"""The command line: one file per command, and `main`, which turns errors into a line and an exit code."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

import tenure
from tenure.errors import TenureError

_ABOUT = """Show how long each tensor of a PyTorch, TensorFlow or JAX program stays in memory, what keeps it alive, and how
to release it."""
_NEXT = """  tenure run SCRIPT        use this instead of `python SCRIPT`
  tenure COMMAND --help    show the options of a command"""

# One command is one file here, and one line.
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

# Their first argument can be left out. argparse must see all arguments to know which ones there are.
_MIXED = ("sql", "diff")


class Verb(Protocol):
    """The file of a command. Its docstring is its help, and the first line is shown in the list of commands."""

    __doc__: str | None

    def prepare(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Run the command, and return the exit code: 0 for success, 1 for findings."""


class _Help(argparse.HelpFormatter):
    """Help whose paragraphs fit the terminal. Indented paragraphs are examples, and keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(one if one.startswith("  ") else fill(one, width, indent) for one in paragraphs)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors show the usage of the command in question, and what was meant."""

    mixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; with `mixed`, take options from between the other arguments first."""
        if not self.mixed:
            return super().parse_known_args(args, namespace)
        self.mixed = False
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.mixed = True

    def reject(self, left: Sequence[str]) -> NoReturn:
        """Report arguments that the command does not have."""
        options = [one for one in left if one.startswith("-") and one != "-"]
        if not options:
            self.error(f"unexpected arguments: {' '.join(left)}")
        name = options[0].partition("=")[0]
        self.error(f"there is no option {name}{_meant(name, self._option_string_actions)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Wrong usage prints what is wrong, and returns 2."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed when Python began
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:  # as other programs have it
        words = [*words[1:2], "--help"]
    # Only the help of all commands needs all of them.
    verbs = _verbs(words[:1] if words and words[0] in VERBS else VERBS)
    # What follows the script belongs to the script, whatever it looks like.
    split = getattr(verbs.get(words[0]) if words else None, "split", None)
    theirs: list[str] = []
    if split is not None:
        ours, theirs = split(words[1:])
        words = [words[0], *ours]
    try:
        options = _parsed(words, verbs)
    except SystemExit as left:  # by --help, --version, or wrong usage
        return int(left.code or 0)
    options.command = theirs
    try:
        return verbs[options.verb].run(options)
    except TenureError as error:
        sys.stderr.write(f"tenure: {error}\n")
        return 2
    except BrokenPipeError:
        # The reader has closed the pipe. Python would report that again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _verbs(names: Sequence[str]) -> dict[str, Verb]:
    found: dict[str, Any] = {name: importlib.import_module(f"tenure.cli.{name}") for name in names}
    return cast("dict[str, Verb]", found)


def _parsed(words: Sequence[str], verbs: dict[str, Verb]) -> argparse.Namespace:
    parser, commands = _parsers(verbs)
    first = next(iter(words), "")
    if first and not first.startswith("-") and first not in commands:
        script = f"; did you mean `tenure run {first}`?" if Path(first).is_file() else ""
        parser.error(
            f"there is no command {first}{script or _meant(first, commands) or '; `tenure --help` lists the commands'}"
        )
    left: list[str]
    options: argparse.Namespace
    options, left = parser.parse_known_args(words)
    if not first or (options.verb is None and not left):
        parser.print_help(sys.stderr)
        parser.exit(2)
    if left:
        commands.get(first, parser).reject(left)
    return options


def _meant(word: str, known: Iterable[str]) -> str:
    """Return the question whether something similar was meant; empty if nothing is similar."""
    found = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _parsers(verbs: dict[str, Verb]) -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(prog="tenure", description=_ABOUT, epilog=_NEXT, formatter_class=_Help, allow_abbrev=False)
    parser.add_argument("-V", "--version", action="version", version=f"tenure {tenure.__version__}")
    choices = parser.add_subparsers(dest="verb", metavar="COMMAND", title="commands")
    commands = {}
    for name, verb in verbs.items():
        summary, _, rest = (verb.__doc__ or "").partition("\n\n")
        one = choices.add_parser(
            name,
            help=summary,
            description=f"{summary}\n\n{rest}".strip(),
            formatter_class=_Help,
            allow_abbrev=False,
        )
        verb.prepare(one)
        one.mixed = name in _MIXED
        commands[name] = one
    return parser, commands
