"""Recording a program that does not know of it: what the environment asks for, done in each of its processes.

`TENURE_TRACE` names the folder. A `.pth` file calls `begin` in every Python that finds it set: the one that the user
started, and whatever that one starts. `TENURE_RUN` says, for those, that the run has begun, in which process, and how.
Nothing is recorded, and nothing large imported, before the process imports a framework.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tenure.frameworks import RECORDED, imports

TRACE = "TENURE_TRACE"
RUN = "TENURE_RUN"
# Set by what starts many processes at once: none of them may take the folder for its own.
_LAUNCHERS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

# What comes along with a recording; by name, for it stands on what is here.
_COMPANIONS = ("tenure.watch",)

_begun = False
_waiting: _Guest | None = None


def run(**how: Any) -> dict[str, str]:
    """The environment of a run that this process begins.

    `steps`: how many each process records. `quiet`: no words of ours. `watch`: the module that
    looks at how each process ends. `after`: a command for when it is over. `claim`:
    a name for a run that has not made its folder, which is for the first of its processes that records.
    """
    return {RUN: json.dumps({"pid": os.getpid(), **how})}


def begin() -> None:
    """Record this process as the environment says. Whatever goes wrong, the program goes on."""
    global _begun, _waiting
    if _begun:  # where lib64 is a link to lib, Python reads every .pth file twice
        return
    _begun = True
    how: dict[str, Any] = {}
    try:
        folder = Path(os.environ[TRACE]).absolute()
        os.environ[TRACE] = str(folder)
        if RUN not in os.environ:
            os.environ.update(run(claim=f"{os.getpid()}-{time.time_ns()}"))
        how = json.loads(os.environ[RUN])
        _waiting = _Guest(folder, how)
        for name in RECORDED:
            imports.when_imported(name, _waiting.start)
        if how.get("pid") == os.getpid():
            _begin_here(how)
    except Exception as error:  # noqa: BLE001 - a program is not to fail because it is watched
        _say(how, f"no trace: {error}")


def wake() -> None:
    """Begin to record now, if that waits for a framework: the user has something to note."""
    if _waiting is not None:
        _waiting.start("")


def accompany(recorder: Any) -> None:
    """Have what comes along with a recording begin, before the recording does."""
    for part in _COMPANIONS:
        importlib.import_module(part).begin(recorder)


class _Guest:
    """The recording of one process, from when there is something to record."""

    def __init__(self, folder: Path, how: dict[str, Any]) -> None:
        self.folder = folder
        self.how = how

    def start(self, name: str) -> None:
        """A framework is imported (or the user cannot wait)."""
        global _waiting
        if _waiting is not self:
            return
        _waiting = None
        imports.forget(self.start)
        try:
            if self.how.get("watch"):  # what looks at how the process ends; who begins the run names it
                import_module(self.how["watch"]).watch(self.folder, quiet=bool(self.how.get("quiet")))
            from tenure.trace.limited import Careful

            if "claim" in self.how:
                _claim(self.folder, self.how["claim"])
            recorder = Careful(self.folder, steps=self.how.get("steps"), trouble=self._trouble)
            accompany(recorder)
            recorder.start(fresh=False)
            _stop_with_children_of_multiprocessing(recorder)
        except Exception as error:  # noqa: BLE001
            self._trouble(f"no trace: {error}")

    def _trouble(self, text: str) -> None:
        _say(self.how, text)


def _claim(folder: Path, run: str) -> None:
    """Make the folder of this run, unless another of its processes has, or it belongs to a run that is going on.

    Not before something is to be recorded: where the variable stays set, any Python comes by, also one that reads a
    trace.
    """
    from tenure.trace import writer

    with suppress(OSError):  # `prepare` will say it
        folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        meta = folder / "meta.json"
        about = _described(meta)
        if about.get("run") == run or _is_shared(about):
            return
        writer.prepare(folder)
        meta.write_text(json.dumps({**_described(meta), "run": run}, indent=1) + "\n", encoding="utf-8")


def _described(meta: Path) -> dict[str, Any]:
    try:
        about = json.loads(meta.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def _is_shared(about: dict[str, Any]) -> bool:
    """Whether the trace is another's, who started before this process and may still write to it."""
    if not about:
        return False
    if any(name in os.environ for name in _LAUNCHERS):
        return True
    try:
        os.kill(about["pid"], 0)
    except (OSError, KeyError, TypeError, OverflowError):
        return False
    return bool(about["pid"] != os.getpid())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Processes that start at once look at the folder one after the other."""
    handle = -1
    with suppress(ImportError, OSError):  # some file systems know no locks
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle >= 0:
            os.close(handle)


def _begin_here(how: dict[str, Any]) -> None:
    """What only the first process of `tenure run` does: show how it goes, and call what comes after."""
    if not how.get("after"):
        return
    atexit.register(_after, os.getpid(), how["after"])
    if not how.get("quiet") and os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb":
        from tenure.trace import progress

        progress.show()


def _after(pid: int, command: list[str]) -> None:
    """Run what comes after the script: registered before all that it registers, this comes when they are through.

    It is a process of its own: whatever happens there is not to change how this one ends.
    """
    if os.getpid() != pid:
        return
    import subprocess

    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # Python's own flush comes later, and says it
            stream.flush()
    recorder = sys.modules.get("tenure.trace.recorder")
    active = None if recorder is None else recorder.active()
    if active is not None:
        active.stop()
    environment = {name: value for name, value in os.environ.items() if name not in (TRACE, RUN)}
    with suppress(OSError, KeyboardInterrupt):
        # The recording waits for a framework to be imported: if it does so no more, one was.
        failed = ["--failed"] if _waiting is None and active is None else []
        subprocess.run([*command, *failed], env=environment, stdin=subprocess.DEVNULL, check=False)


def _stop_with_children_of_multiprocessing(recorder: Any) -> None:
    """They leave by os._exit, and only finalizers run before that.

    A framework can be imported before such a child forgets the finalizers of its parent, or after: so it is said twice.
    """
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(recorder, lambda own: util.Finalize(None, own.stop, exitpriority=-100))
        util.Finalize(None, recorder.stop, exitpriority=-100)


def _say(how: dict[str, Any], text: str) -> None:
    if not how.get("quiet"):
        os.write(2, f"tenure: {text}\n".encode(errors="backslashreplace"))
