"""Being told when a framework has been imported, without importing it."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType

Call = Callable[[str], None]

_waiting: dict[str, list[Call]] = {}
_lock = threading.RLock()


def when_imported(name: str, call: Call) -> None:
    """Call with the name once the module is imported: now, if it is already, else right after its import."""
    with _lock:
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        begun = getattr(spec, "_initializing", False)
        if module is None or begun:
            if type(spec) is ModuleSpec:
                spec.__class__ = _Spec  # its import has begun without us
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


def look_again() -> None:
    """Have Python list the folders of its path again when it next imports.

    A folder that could not be listed (too many open files, a disk that answers late) counts as empty from then on. If
    that was in an import of tenure's, the program's own imports are not to suffer from it.
    """
    for finder in list(sys.path_importer_cache.values()):
        forget_listing = getattr(finder, "invalidate_caches", None)
        if forget_listing is not None:
            with suppress(Exception):  # others than Python's own finders may do anything
                forget_listing()


class _Finder:
    """Finds nothing itself: it asks the others, and has the spec that they give tell when it is done."""

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
        if spec is not None and type(spec) is ModuleSpec:
            spec.__class__ = _Spec
        return spec


class _Spec(ModuleSpec):
    """A spec that notices when Python says that the import is over.

    A loader around the framework's own would stand in the traceback of whatever goes wrong in its import.
    """

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__.get("_initializing"))

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        was, self.__dict__["_initializing"] = self.__dict__.get("_initializing"), value
        if was and not value:
            self.__class__ = ModuleSpec  # type: ignore[assignment]
            if self.name in sys.modules:
                _tell(self.name)


def _tell(name: str) -> None:
    with _lock:
        calls = _waiting.pop(name, [])
        if not _waiting and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
    for call in calls:
        call(name)


_busy = threading.local()
_finder = _Finder()
