"""Run a script or a module, and record what happens to its tensors.

The script runs as it would by `python SCRIPT`: same arguments, same output, same exit code. So do the processes that
it starts, each recorded into a stream of its own. What tenure has to say comes after it, on standard error.
"""

from __future__ import annotations

import argparse
import os
import site
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from tenure import console, outputs
from tenure.errors import TraceError
from tenure.findings import is_array
from tenure.trace import api, autostart, folders

_VALUED = ("-o", "-fo", "--output", "--steps", "--findings")
_USAGE = "tenure run [-o FOLDER] [-f] [--steps N] [--findings FILE] [--quiet] (SCRIPT | -m MODULE) [ARGUMENT ...]"


def prepare(parser: argparse.ArgumentParser) -> None:
    """The arguments; SCRIPT and what follows it are taken by `split`."""
    parser.usage = _USAGE
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where the trace goes (default: tenure-SCRIPT)")
    parser.add_argument(
        "-f", "--force", action="store_true", help="replace an older trace in FOLDER; other files there are kept"
    )
    parser.add_argument("--steps", metavar="N", type=_count, help="record N steps only; the script goes on")
    parser.add_argument(
        "--findings",
        metavar="FILE",
        help="write all findings of the run to FILE, as a JSON array; FILE must be new, empty, or of an earlier run",
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing")
    parser.add_argument("-m", metavar="MODULE", help="run a module, as `python -m MODULE` does")


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """What is for tenure, and the command: the script or `-m MODULE`, and everything behind it."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[:at], words[at + 1 :]
        if word == "-" or word.startswith("-m") or not word.startswith("-"):
            return words[:at], words[at:]
        at += 2 if word in _VALUED else 1
    return words, []


def run(options: argparse.Namespace) -> int:
    """Make the trace's folder, and become the script: the same process, so that signals and exit codes are its own."""
    command, name = _target(options.command)
    if not sys.executable:
        raise TraceError("this Python does not know where its program is (sys.executable is empty)")
    python = [sys.executable, *_flags()]
    findings = None if options.findings is None else Path(options.findings)
    if findings is not None:
        outputs.check(findings, is_array, spare=() if command[0] == "-m" else (Path(command[0]),))
        findings = findings.absolute()
    sys.argv = command[1:] if command[0] == "-m" else command  # which the trace tells as the command
    folder = api.unused(name) if options.output is None else Path(options.output).absolute()
    folders.take(folder, replace=options.force)
    if findings is not None:
        outputs.empty(findings)  # if this run is killed, those of an earlier one must not be read
    environment = os.environ | {autostart.TRACE: str(folder)}
    after = _after(folder, findings, options)
    environment |= autostart.run(steps=options.steps, quiet=options.quiet, after=after, watch="tenure.explain.uncaught")
    if not _is_installed():
        shim = str(Path(autostart.__file__).parent / "site")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (shim, os.environ.get("PYTHONPATH"))))
    if not options.quiet and (cause := _unrecorded()):
        console.say(f"nothing will be recorded: {cause}")
    _become([*python, *command], environment)


def _target(words: list[str]) -> tuple[list[str], str]:
    """The command for Python, and what it is called."""
    if not words:
        raise TraceError(f"no script to run. Usage: {_USAGE}")
    first = words[0]
    if first.startswith("-m"):
        command = words if first == "-m" else ["-m", first[2:], *words[1:]]
        if len(command) < 2:
            raise TraceError(f"-m needs the name of a module. Usage: {_USAGE}")
        return command, command[1]
    if first == "-":
        return words, "stdin"
    if not Path(first).exists():
        raise TraceError(f"there is no script {first}")
    return words, Path(first).absolute().stem


def _after(folder: Path, findings: Path | None, options: argparse.Namespace) -> list[str]:
    """The command that ends the run: it says where the trace is, and writes the findings."""
    if options.quiet and findings is None:
        return []
    told = [] if findings is None else ["--findings", str(findings)]
    quiet = ["--quiet"] if options.quiet else []
    # -P: the script's folder may hold modules called like ours, or Python's.
    return [sys.executable, "-P", "-m", "tenure.cli.after", *told, *quiet, str(folder)]


def _is_installed() -> bool:
    """Whether Python reads the .pth file that begins the recording; not so where tenure is on PYTHONPATH only."""
    places: list[str] = [*site.getsitepackages(), site.getusersitepackages()]
    return any(Path(place, "tenure-autostart.pth").exists() for place in places)


def _unrecorded() -> str:
    """Why Python will not begin the recording; empty if it will."""
    if sys.flags.no_site:
        return "with -S Python starts nothing before the script; leave it out"
    if sys.flags.ignore_environment and not _is_installed():
        return "with -I or -E Python ignores PYTHONPATH, where tenure is; install tenure, or leave it out"
    return ""


def _flags() -> list[str]:
    """The options of Python that tenure was called with, such as -O or -W; what the environment says is passed on."""
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    if before[-2:] == ["-m", "tenure"]:
        return before[:-2]
    return before[:-1] if before[-1:] == sys.argv[:1] else []


def _become(command: list[str], environment: dict[str, str]) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # it may be closed, or its disk full: the script goes on
            stream.flush()
    os.execve(command[0], command, environment)  # noqa: S606 - no shell is wanted


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of steps")
    return number
