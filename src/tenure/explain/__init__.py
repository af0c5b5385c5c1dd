"""Explain an exception, or a pasted traceback: which rule it matches, and where the value was created, released and used."""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # a failing program imports this: other modules are imported only when needed
if TYPE_CHECKING:
    from tenure.findings import Finding


class _Package(ModuleType):
    """A package that can be called, because importing it binds the name of the function `tenure.explain`."""

    def __call__(self, exc: BaseException | None = None) -> Finding | None:
        from tenure.explain.api import explain

        return explain(exc)


sys.modules[__name__].__class__ = _Package
