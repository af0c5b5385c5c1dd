"""Recording what happens to buffers: events, the recorder, its files, and reading them back."""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # every process of a traced program comes by here: nothing that can wait is imported
if TYPE_CHECKING:
    from typing import Any

    from tenure.trace.api import Tracing


class _Package(ModuleType):
    """`tenure.trace` is a function to its users; once this package is imported, Python binds that name to it."""

    def __call__(self, path: Any = None, **options: Any) -> Tracing:
        from tenure.trace.api import trace

        return trace(path, **options)


sys.modules[__name__].__class__ = _Package
