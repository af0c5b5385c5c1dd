"""What `tenure run` says of an exception that ended the program: after its traceback, before the process goes.

`sys.excepthook` stays the script's own: Python keeps the exception that it has shown in `sys.last_value`, and that is
looked at when the interpreter begins to shut down.
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
    """Explain what ends this process or one of its threads, and keep it with the trace in `folder`."""
    global _folder, _quiet
    if _folder is not None:
        return
    import atexit
    import threading

    _folder, _quiet = folder, quiet
    # Before threads are waited for: one that never ends would keep the explanation from its reader.
    register: Any = getattr(threading, "_register_atexit", atexit.register)
    register(_at_exit, os.getpid())
    before = threading.excepthook

    def in_thread(args: Any) -> None:
        before(args)
        _tell(args.exc_value)

    threading.excepthook = in_thread


def _at_exit(pid: int) -> None:
    if os.getpid() == pid and not hasattr(sys, "ps1"):  # at a prompt the last exception is no end
        _tell(getattr(sys, "last_exc", None) or getattr(sys, "last_value", None))


def _tell(exc: BaseException | None) -> None:
    """Explain what ended the program. Whatever fails here must not follow the user's traceback, nor replace it."""
    if exc is None:
        return
    try:
        _explain(exc)
    except Exception as error:  # noqa: BLE001
        if not _quiet:
            console.say(f"cannot explain this exception: {error!r}")


def _explain(exc: BaseException) -> None:
    from tenure.trace.told import tell

    # Where the traceback went is the script's; the explanation goes to the standard error that the run began with.
    finding = told.look(exc) if _quiet else told.below(exc, console)
    if finding is not None and _folder is not None:
        with suppress(OSError):  # a full disk: it has been said, and cannot be kept
            tell(_folder, finding)
