"""From an exception, or the text of one, to the fault behind it: where the value was made, got out or ended, was used."""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # a failing program comes by here: what can wait is imported later
if TYPE_CHECKING:
    from tenure.findings import Finding


class _Package(ModuleType):
    """`tenure.explain` is a function to its users; once this package is imported, Python binds that name to it."""

    def __call__(self, exc: BaseException | None = None) -> Finding | None:
        from tenure.explain.api import explain

        return explain(exc)


sys.modules[__name__].__class__ = _Package
