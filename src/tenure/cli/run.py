"""Run a script or a module, and report its leaks and errors.

Use it instead of `python SCRIPT`: arguments, output and exit code stay the same. tenure records the script and the
processes that it starts. When the script is over, it prints leaks, peak memory and advice to standard error.

  tenure run train.py --epochs 2
  tenure run -o before -m package.train

The exit code is the script's own, or 2 if there is no such script. For a module that does not exist, it is Python's own: 1.
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
_USAGE = """tenure run [-o FOLDER] [-f] [--steps N] [--findings FILE] [-q]
                  (SCRIPT | -m MODULE) [ARGUMENT ...]"""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; `split` takes SCRIPT and what follows it."""
    parser.usage = _USAGE
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="write the trace to FOLDER, which must be new or empty (default: tenure-SCRIPT, or tenure-SCRIPT-2 and so on)",
    )
    parser.add_argument(
        "-f",
        "--force",
        action="store_true",
        help="replace the trace in FOLDER (without -o: in tenure-SCRIPT); other files next to it are kept",
    )
    parser.add_argument("--steps", metavar="N", type=_count, help="record only the first N steps; the script continues")
    parser.add_argument(
        "--findings",
        metavar="FILE",
        help="write all findings to FILE as a JSON array; FILE must be new, empty, or written by an earlier run",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print neither findings nor a summary")
    parser.add_argument("-m", metavar="MODULE", help="run a module, like `python -m MODULE`")


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the options of tenure, and the command: the script or `-m MODULE`, and everything after it."""
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
    """Make the trace's folder, and replace this process by the script: signals and exit codes are then its own."""
    command, name = _target(options.command)
    if not sys.executable:
        raise TraceError("cannot start the script: sys.executable is empty")
    python = [sys.executable, *_flags()]
    findings = None if options.findings is None else Path(options.findings)
    if findings is not None:
        outputs.check(findings, is_array, spare=() if command[0] == "-m" else (Path(command[0]),))
        findings = findings.absolute()
    sys.argv = command[1:] if command[0] == "-m" else command  # which the trace tells as the command
    if options.output is None:
        folder, made = api.default_folder(name, replace=options.force), True
    else:
        folder = Path(options.output).absolute()
        made = not os.path.lexists(folder)
    if findings is not None and findings == folder:
        raise TraceError(f"cannot write both the trace and the findings to {options.output}; name two places")
    folders.take(folder, replace=options.force)
    if findings is not None:
        outputs.empty(findings)  # if this run is killed, those of an earlier one must not be read
    environment = os.environ | {autostart.TRACE: str(folder)}
    after = _after(folder, findings, options, made=made)
    environment |= autostart.run(steps=options.steps, quiet=options.quiet, after=after, watch="tenure.explain.uncaught")
    if not _is_installed():
        shim = str(Path(autostart.__file__).parent / "site")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (shim, os.environ.get("PYTHONPATH"))))
    if not options.quiet and (cause := _unrecorded()):
        console.say(f"nothing will be recorded: {cause}")
    _become([*python, *command], environment)


def _target(words: list[str]) -> tuple[list[str], str]:
    """Return the command for Python, and the name of the program."""
    if not words:
        raise TraceError(f"no script to run\nusage: {_USAGE}")
    first = words[0]
    if first.startswith("-m"):
        command = words if first == "-m" else ["-m", first[2:], *words[1:]]
        if len(command) < 2:
            raise TraceError(f"-m needs the name of a module\nusage: {_USAGE}")
        return command, command[1]
    if first == "-":
        return words, "stdin"
    if not Path(first).exists():
        raise TraceError(f"no such script: {first}")
    return words, Path(first).absolute().stem


def _after(folder: Path, findings: Path | None, options: argparse.Namespace, *, made: bool) -> list[str]:
    """Return the command that runs after the script: it prints the last lines, and writes the findings.

    `made`: the folder is new, and is removed if nothing was recorded.
    """
    if options.quiet and findings is None:
        return []
    told = [] if findings is None else ["--findings", str(findings)]
    quiet = ["--quiet"] if options.quiet else []
    # -P: the script's folder may hold modules called like ours, or Python's.
    return [sys.executable, "-P", "-m", "tenure.cli.after", *told, *quiet, *(["--made"] if made else []), str(folder)]


def _is_installed() -> bool:
    """Return whether Python reads the .pth file that starts the recording. It does not if tenure is only on PYTHONPATH."""
    places: list[str] = [*site.getsitepackages(), site.getusersitepackages()]
    return any(Path(place, "tenure-autostart.pth").exists() for place in places)


def _unrecorded() -> str:
    """Return why Python will not start the recording; empty if it will."""
    if sys.flags.no_site:
        return "with -S, Python starts nothing before the script; remove -S"
    if sys.flags.ignore_environment and not _is_installed():
        return "with -I or -E, Python ignores PYTHONPATH, where tenure is; install tenure, or remove the option"
    return ""


def _flags() -> list[str]:
    """Return the options of Python that tenure was called with, such as -O or -W. The environment is passed on anyway."""
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps; use 1 or more")
    return number
