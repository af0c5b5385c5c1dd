"""Sessions when their process forks or ends: a child has none of the threads, and an exit waits for nobody long."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from typing import TYPE_CHECKING

from tenure import console
from tenure.sharing.session_told import Closing

if TYPE_CHECKING:
    from tenure.sharing.session_core import Core

_GRACE = 5.0  # seconds that runs going on at the exit have; a thread stopped inside a framework can abort the process
_open: weakref.WeakSet[Core] = weakref.WeakSet()
_is_watching = False


def watch(core: Core) -> None:
    """Look after this session at forks and at the exit."""
    global _is_watching
    if not _is_watching:
        _is_watching = True
        atexit.register(_exiting)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forked)
    _open.add(core)


def _forked() -> None:
    for core in list(_open):
        core.forked()


def _exiting() -> None:
    for core in list(_open):
        if core.ended.done():
            continue
        before = core.fates["cancelled"]
        core.leases.clear()
        core.close(Closing(None, "the interpreter was exiting"), cancel=True)
        with contextlib.suppress(Exception):  # the end of the process is no place to complain
            core.ended.result(_GRACE)
        cancelled = core.fates["cancelled"] - before
        told = [f"{cancelled} runs that waited were cancelled"] if cancelled else []
        told += ["a run was not finished"] if not core.ended.done() else []
        if told:
            where = f" (opened at {core.opened.short})" if core.opened else ""
            console.say(f"session {core.name!r}{where} was open when Python exited: {', and '.join(told)}")
