"""Runs the commands of pages in one process that has imported the framework: each in a fork of it.

Given a list of pages on standard input, [[folder, [command, …]], …], it writes what each command printed, as JSON.
Only `tenure run` is a new process: it becomes the script, as it does for people.
"""

import atexit
import importlib
import json
import os
import shlex
import subprocess
import sys
import types
from pathlib import Path


def main(framework):
    importlib.import_module(framework)
    pages = json.load(sys.stdin)
    told = []
    for folder, commands in pages:
        os.chdir(folder)
        told.append([run(command) for command in commands])
    json.dump(told, sys.stdout)


def run(command):
    words = shlex.split(command)
    errors = None
    if "2>" in words:
        errors = words[words.index("2>") + 1]
        words = words[: words.index("2>")]
    with open(".out", "wb") as out, open(errors or ".err", "wb") as apart:
        streams = (out, apart if errors else out)
        if words[:2] == ["tenure", "run"]:
            subprocess.run(
                [sys.executable, "-m", *words], stdout=streams[0], stderr=streams[1], stdin=subprocess.DEVNULL
            )
        else:
            forked(words, *streams)
    return Path(".out").read_text()


def forked(words, out, errors):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.dup2(out.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout, sys.stderr = open(1, "w", buffering=1, closefd=False), open(2, "w", buffering=1, closefd=False)
    sys.path.insert(0, os.getcwd())
    status = 0
    try:
        if words[0] == "python":
            script(words[1:])
        else:
            assert words[0] == "tenure", f"pages run python and tenure, not {words[0]}"
            from tenure.cli import main

            status = main(words[1:])
    except BaseException as error:
        # As Python shows it: without our frames, which are two.
        error = error.with_traceback(error.__traceback__.tb_next.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def script(words):
    """As `python SCRIPT` does it."""
    path = Path(words[0]).absolute()
    main = types.ModuleType("__main__")
    main.__file__ = str(path)
    sys.modules["__main__"] = main
    sys.argv = words
    exec(compile(path.read_bytes(), str(path), "exec"), main.__dict__)


if __name__ == "__main__":
    main(sys.argv[1])
