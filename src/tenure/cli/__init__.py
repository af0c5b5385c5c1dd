"""The command line: one file per command, and `main`, which turns errors into a line and an exit code."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import shlex
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
    "check",
    "explain",
    "report",
    "view",
    "sql",
    "diff",
    "export",
    "doctor",
    "rules",
    "server",
    "store",
    "top",
)

# Their first argument can be left out. argparse must see all arguments to know which ones there are.
_MIXED = ("sql", "diff")
_VERSION = {"-v": "there is no option -v", "version": "there is no command version"}


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

    def error(self, message: str) -> NoReturn:
        """Report wrong usage; for a missing option, with its choices."""
        for action in self._actions:
            if action.required and action.choices and message.endswith(f"required: {'/'.join(action.option_strings)}"):
                message += f"; {action.metavar} is one of: {', '.join(map(str, action.choices))}"
        super().error(message)

    def reject(self, left: Sequence[str], before: Sequence[str] = (), command: Sequence[str] = ()) -> NoReturn:
        """Report arguments that the command does not have, and options of a script that stand before the script.

        `before` is everything before the first word that is not an option, and `command` the rest.
        """
        options = [one for one in left if one.startswith("-") and one != "-"]
        if not options:
            self.error(f"unexpected arguments: {' '.join(left)}")
        name = options[0].partition("=")[0]
        moved = _moved(left, before, command)
        wrong = f"there is no option {name}{_meant(name, self._option_string_actions, 0.8 if moved else 0.6)}"
        if moved:
            wrong += f"{'' if wrong.endswith('?') else ';'} options of the script go after it: {self.prog} {moved}"
        self.error(wrong)


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
        options = _parsed(words, verbs, theirs)
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


def _parsed(words: Sequence[str], verbs: dict[str, Verb], theirs: Sequence[str]) -> argparse.Namespace:
    parser, commands = _parsers(verbs)
    first = next(iter(words), "")
    if first in _VERSION:
        parser.exit(2, f"tenure: {_VERSION[first]}; use: tenure -V\n")
    if first and not first.startswith("-") and first not in commands:
        if _is_script(first):
            parser.exit(2, f"tenure: {first} is a script; use: tenure run {shlex.join(words)}\n")
        parser.error(f"there is no command {first}{_meant(first, commands) or '; `tenure --help` lists the commands'}")
    left: list[str]
    options: argparse.Namespace
    options, left = parser.parse_known_args(words)
    if not first or (options.verb is None and not left):
        parser.print_help(sys.stderr)
        parser.exit(2)
    if left:
        commands.get(first, parser).reject(left, words[1:], theirs)
    return options


def _is_script(word: str) -> bool:
    return Path(word).is_file() or (word.endswith(".py") and not word.startswith("-"))


def _moved(left: Sequence[str], before: Sequence[str], command: Sequence[str]) -> str:
    """Return the arguments with unknown options moved after the script; empty if there is no script.

    The value of an unknown option looks like the script: in `--epochs 3 train.py`, `command` is `3 train.py`.
    """
    for at, word in enumerate(command):
        if word == "-m" or _is_script(word):
            after = at + (2 if word == "-m" else 1)
            known = [one for one in before if one not in left]
            return shlex.join([*known, *command[at:after], *left, *command[:at], *command[after:]])
    return ""


def _meant(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the question whether something similar was meant; empty if nothing is similar."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
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
