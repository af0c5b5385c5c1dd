"""`install` and `uninstall`: explanations below uncaught tracebacks, wherever Python prints them.

Each hook keeps the previous one, calls it first, and then prints the explanation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tenure.explain import told
from tenure.frameworks import imports

_undo: list[Callable[[], None]] = []
_on = False


def install() -> None:
    """Explain every uncaught exception below its traceback: in plain Python, threads, asyncio, IPython and pytest.

    It does not change the exception, its traceback, the exit code or hooks that were set before. A second call has no
    effect.

    Example:
        tenure.install()  # in a notebook, or in conftest.py
    """
    global _on
    if _on:
        return
    _on = True
    _wrap(sys, "excepthook", lambda args, kwargs: args[1])
    imports.when_imported("threading", _threads)
    imports.when_imported("asyncio.base_events", _tasks)
    imports.when_imported("IPython.core.interactiveshell", _notebooks)
    imports.when_imported("_pytest.reports", _tests)


def uninstall() -> None:
    """Remove the hooks that `install` added."""
    global _on
    for door in (_threads, _tasks, _notebooks, _tests):
        imports.forget(door)
    while _undo:
        _undo.pop()()
    _on = False


def _wrap(owner: Any, name: str, exception: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Wrap `owner.name`: call it as before, then explain the exception of that call."""
    before = getattr(owner, name)

    def hook(*args: Any, **kwargs: Any) -> Any:
        result = before(*args, **kwargs)
        if _on:
            try:
                raised = exception(args, kwargs)
            except Exception:  # noqa: BLE001 - called with unknown arguments: nothing to explain
                raised = None
            told.below(raised)
        return result

    def undo() -> None:
        # If another hook wraps ours, ours stays in between and prints nothing.
        if getattr(owner, name, None) is hook:
            setattr(owner, name, before)

    setattr(owner, name, hook)
    _undo.append(undo)


def _threads(_: str) -> None:
    _wrap(sys.modules["threading"], "excepthook", lambda args, kwargs: args[0].exc_value)


def _tasks(_: str) -> None:
    """A task that is never awaited: its event loop reports the exception."""
    loop: Any = getattr(sys.modules["asyncio.base_events"], "BaseEventLoop", None)
    if loop is not None:
        _wrap(loop, "default_exception_handler", lambda args, kwargs: args[1].get("exception"))


def _notebooks(_: str) -> None:
    shell: Any = getattr(sys.modules["IPython.core.interactiveshell"], "InteractiveShell", None)
    if shell is not None:
        _wrap(shell, "showtraceback", _shown)


def _shown(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the exception that IPython has just shown: the given one, or the current one."""
    given = kwargs.get("exc_tuple") or (args[1] if len(args) > 1 else None)
    return given[1] if given else sys.exception() or getattr(sys, "last_value", None)


def _tests(_: str) -> None:
    """Add a section to the report; pytest prints sections below the traceback."""
    reports: Any = sys.modules["_pytest.reports"]
    kind = getattr(reports, "TestReport", None)
    if kind is None:
        return
    before = kind.__dict__["from_item_and_call"]

    def made(cls: Any, item: Any, call: Any) -> Any:
        report = before.__func__(cls, item, call)
        if _on and getattr(report, "failed", False) and call.excinfo is not None:
            try:
                finding = told.look(call.excinfo.value)
                if finding is not None:
                    report.sections.append(("tenure", told.text(finding)))
            except Exception:  # noqa: BLE001 - the test's own report must come through
                return report
        return report

    wrapped = classmethod(made)
    kind.from_item_and_call = wrapped

    def undo() -> None:
        if kind.__dict__.get("from_item_and_call") is wrapped:
            kind.from_item_and_call = before

    _undo.append(undo)
