"""The native parts: compiled when first needed, kept in a cache, and replaced by their Python twins where that fails.

Each source in `native/` is one extension module. It is compiled against the Python (and torch) that is running, so
what it knows of their inner structures comes from their own headers. `TENURE_NATIVE=0` forces the twins.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

_loaded: dict[str, ModuleType | None] = {}
_reasons: dict[str, str] = {}
_lock = threading.RLock()
_building = ""  # the one that is being compiled or imported


def load(
    name: str,
    source: str,
    *,
    includes: list[str] | None = None,
    flags: list[str] | None = None,
    key: str = "",
    compiled: bool = False,
) -> ModuleType | None:
    """Import the extension `name` made from `native/source`, compiling it if this Python has not yet; None if not.

    `key` tells apart builds against different versions of what is included. `reason(name)` says why it is None. Who has
    no time for a compiler asks for what is `compiled`.
    """
    global _building
    if os.environ.get("TENURE_NATIVE") == "0":
        _reasons[name] = "switched off by TENURE_NATIVE=0"
        return None
    if name in _loaded:  # without the lock: another thread may be compiling, which takes a minute
        return _loaded[name]
    with _lock:
        if name in _loaded:
            return _loaded[name]
        if _building:  # a look for leaks has begun between two instructions of these: it goes without
            return None
        module: ModuleType | None
        _building = name
        try:
            from tenure import compiler  # it brings subprocess and more, which a second run never needs

            module, why = compiler.build(name, source, includes or [], flags or [], key, compiled=compiled)
        except Exception as error:  # noqa: BLE001 - there is always a way without, and a program that goes on
            module, why = None, str(error) or repr(error)
        finally:
            _building = ""
        if module is None and compiled:
            return None
        _loaded[name] = module
        if module is None:
            _reasons[name] = why
        return module


def _forked() -> None:
    """In a child made by fork, no thread is left that would let the lock go."""
    global _lock, _building
    _lock = threading.RLock()
    _building = ""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def decline(name: str, why: str) -> None:
    """Say why an extension is not even to be compiled here."""
    _reasons[name] = why


def reason(name: str) -> str:
    """Why the extension is not in use; empty if it is, or was never asked for."""
    return _reasons.get(name, "")
