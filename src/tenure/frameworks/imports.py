"""Being told when a framework has been imported, without importing it."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Call = Callable[[str], None]

_waiting: dict[str, list[Call]] = {}
_lock = threading.RLock()


def when_imported(name: str, call: Call) -> None:
    """Call with the name once the module is imported: now, if it is already, else right after its import."""
    with _lock:
        module = sys.modules.get(name)
        begun = getattr(getattr(module, "__spec__", None), "_initializing", False)
        if module is None or begun:
            _waiting.setdefault(name, []).append(call)
            if _finder not in sys.meta_path:
                sys.meta_path.insert(0, _finder)
            return
    call(name)


def forget(call: Call) -> None:
    """Do not tell this one any more."""
    with _lock:
        for name in list(_waiting):
            _waiting[name] = [one for one in _waiting[name] if one != call]
            if not _waiting[name]:
                del _waiting[name]
        if not _waiting and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)


class _Finder:
    """Finds nothing itself: it asks the others, and has their loader tell when it is done."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _waiting or getattr(_busy, "name", None) == name:
            return None
        _busy.name = name
        try:
            spec = importlib.util.find_spec(name)
        finally:
            _busy.name = None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        with _lock:
            calls = _waiting.pop(module.__name__, [])
            if not _waiting and _finder in sys.meta_path:
                sys.meta_path.remove(_finder)
        for call in calls:
            call(module.__name__)


_busy = threading.local()
_finder = _Finder()
