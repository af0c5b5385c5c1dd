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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tenure import console, descriptors
from tenure.frameworks import RECORDED, imports

TRACE = "TENURE_TRACE"
RUN = "TENURE_RUN"
# Set by what starts many processes at once: none of them may take the folder for its own.
_LAUNCHERS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
# What tells one start of theirs from the next.
_JOBS = (
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "TORCHELASTIC_RUN_ID",
    "MASTER_PORT",
)
_ROOM = 1024  # MiB of address space: Arrow, a thread, and what they keep
_PATIENCE = 5.0  # seconds that another process may take to look at the folder

# What comes along with a recording; by name, for it stands on what is here.
_COMPANIONS = ("tenure.watch",)

_begun = False
_waiting: _Guest | None = None


def run(**how: Any) -> dict[str, str]:
    """The environment of a run that this process begins. Only `_described` reads it.

    `steps`: how many each process records. `quiet`: no words of ours. `watch`: the module that
    looks at how each process ends. `after`: a command for when it is over. `claim`:
    a name for a run that has not made its folder, which is for the first of its processes that records. Messages go to
    the standard error that this process has.
    """
    return {RUN: json.dumps({"pid": os.getpid(), "stderr": console.began(), **how})}


_TYPES = {"pid": int, "steps": int, "quiet": bool, "watch": str, "claim": str, "after": list, "stderr": list}


def _how(text: str | None) -> dict[str, Any] | None:
    """What TENURE_RUN says; None if it is not set, or not by tenure."""
    try:
        how = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(how, dict) or not isinstance(how.get("pid"), int):
        return None
    known = all(value is None or isinstance(value, _TYPES.get(name, object)) for name, value in how.items())
    texts = how.get("after") or ()
    return how if known and all(isinstance(one, str) for one in texts) and (how.get("steps") or 1) > 0 else None


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
        begun = _how(os.environ.get(RUN))
        if begun is None:
            os.environ.update(run(claim=f"{os.getpid()}-{time.time_ns()}"))
            begun = json.loads(os.environ[RUN])
        how = begun
        console.only(how.get("stderr"))
        _waiting = _Guest(folder, how)
        for name in RECORDED:
            imports.when_imported(name, _waiting.start)
        if how.get("pid") == os.getpid():
            _begin_here(how)
    except Exception as error:  # noqa: BLE001 - a program is not to fail because it is watched
        _say(how, f"no trace: {error}")
    finally:
        imports.look_again()


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
            _need_room()
            if "claim" in self.how:
                self.folder = _claimed(self.folder, self.how["claim"], self._trouble)
                os.environ[TRACE] = str(self.folder)  # for the processes that this one starts
            if self.how.get("watch"):  # what looks at how the process ends; who begins the run names it
                import_module(self.how["watch"]).watch(self.folder, quiet=bool(self.how.get("quiet")))
            from tenure.trace.limited import Careful

            recorder = Careful(self.folder, steps=self.how.get("steps"), trouble=self._trouble)
            accompany(recorder)
            recorder.start(fresh=False)
            _stop_with_children_of_multiprocessing(recorder)
        except Exception as error:  # noqa: BLE001
            self._trouble(f"no trace: {str(error) or type(error).__name__}")
        finally:
            imports.look_again()

    def _trouble(self, text: str) -> None:
        _say(self.how, text)


def _need_room() -> None:
    """Raise MemoryError where the program would lack the address space that a recording takes."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    try:
        taken = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):  # not on Linux
        return
    left = max(limit - taken, 0) >> 20
    if left < _ROOM:
        raise MemoryError(f"only {left} MiB of address space are left (ulimit -v), and a recording may need {_ROOM}")


def _claimed(folder: Path, run: str, say: Callable[[str], None]) -> Path:
    """The folder of this run: one that another of its processes made, or of a run that is going on, or a new one.

    Not before something is to be recorded: where the variable stays set, any Python comes by, also one that reads a
    trace. An older trace stays, and the next free number is used.
    """
    from tenure.trace import folders

    with suppress(OSError):  # `take` will say it
        folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        for one in folders.candidates(folder):
            about = folders.described(one)
            if about and (about.get("run") == run or _is_shared(about)):
                return one
            if about:
                continue
            folders.take(one, run={"run": run, "launch": _launch()})
            if one != folder:
                say(f"{folders.shown(folder)} contains an older trace; this one is in {folders.shown(one)}")
            return one
    raise AssertionError


def _launch() -> dict[str, str]:
    """Which start of a launcher this process belongs to, as far as launchers say it."""
    return {name: os.environ[name] for name in _JOBS if name in os.environ}


def _is_shared(about: dict[str, Any]) -> bool:
    """Whether the trace is another's, who started before this process and may still write to it."""
    if any(name in os.environ for name in _LAUNCHERS) and about.get("launch") == _launch():
        return True
    try:
        os.kill(about["pid"], 0)
    except (OSError, KeyError, TypeError, OverflowError):
        return False
    return bool(about["pid"] != os.getpid())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Processes that start at once look at the folder one after the other."""
    handle, known = -1, None
    with suppress(ImportError, OSError):  # some file systems know no locks
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        known = descriptors.identity(handle)
        until = time.monotonic() + _PATIENCE  # the program may hold a lock of its own there, for ever
        while time.monotonic() < until:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
    try:
        yield
    finally:
        descriptors.close(handle, known)


def _begin_here(how: dict[str, Any]) -> None:
    """What only the first process of `tenure run` does: show how it goes, and call what comes after."""
    if not how.get("after"):
        return
    atexit.register(_after, os.getpid(), how["after"])
    if not how.get("quiet") and console.is_open() and os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb":
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
    # The thread that shows the time may still be importing it.
    find: Callable[[], Any] | None = getattr(sys.modules.get("tenure.trace.recorder"), "active", None)
    active = None if find is None else find()
    if active is not None:
        active.stop()
    environment = {name: value for name, value in os.environ.items() if name not in (TRACE, RUN)}
    # The recording waits for a framework to be imported: if it does so no more, one was.
    how = ["--failed"] if _waiting is None and active is None else []
    raised = getattr(sys, "last_type", None)  # Python sets it when an exception ends the script
    how += ["--raised"] if raised is not None else []
    how += ["--interrupted"] if isinstance(raised, type) and issubclass(raised, KeyboardInterrupt) else []
    error = None if console.is_open() else subprocess.DEVNULL
    with suppress(OSError, subprocess.SubprocessError, KeyboardInterrupt):
        # Descriptors that the program would pass on are passed on: the findings may be for one.
        subprocess.run(
            [*command, *how], env=environment, stdin=subprocess.DEVNULL, stderr=error, check=False, close_fds=False
        )


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
        console.say(text)
