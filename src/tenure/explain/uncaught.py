"""Explain the exception that ended a program under `tenure run`: after its traceback, before the process exits.

The script keeps its own `sys.excepthook`: Python stores the exception that it has printed in `sys.last_value`, which is
read when the interpreter starts to shut down.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenure import console
from tenure.explain import told

_folder: Path | None = None
_quiet = False


def watch(folder: Path, *, quiet: bool) -> None:
    """Explain the exception that ends this process or a thread, and store the explanation with the trace in `folder`."""
    global _folder, _quiet
    if _folder is not None:
        return
    import atexit
    import threading

    _folder, _quiet = folder, quiet
    # Before Python waits for threads: a thread that never ends would delay the explanation for ever.
    register: Any = getattr(threading, "_register_atexit", atexit.register)
    register(_at_exit, os.getpid())
    before = threading.excepthook

    def in_thread(args: Any) -> None:
        before(args)
        _tell(args.exc_value)

    threading.excepthook = in_thread


def _at_exit(pid: int) -> None:
    if os.getpid() == pid and not hasattr(sys, "ps1"):  # at a prompt an exception does not end the process
        _tell(getattr(sys, "last_exc", None) or getattr(sys, "last_value", None))


def _tell(exc: BaseException | None) -> None:
    """Explain what ended the program. An error here must neither follow nor replace the user's traceback."""
    if exc is None:
        return
    try:
        _explain(exc)
    except Exception as error:  # noqa: BLE001
        if not _quiet:
            console.say(f"cannot explain this exception: {error!r}")


def _explain(exc: BaseException) -> None:
    from tenure.trace.told import tell

    # The script decides where the traceback goes; the explanation goes to the standard error with which the run started.
    finding = told.look(exc) if _quiet else told.below(exc, console)
    if finding is not None and _folder is not None:
        with suppress(OSError):  # a full disk: the explanation was printed, but cannot be stored
            tell(_folder, finding)
