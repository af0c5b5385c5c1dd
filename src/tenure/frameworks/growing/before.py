"""Something done before each call of a method, with no frame of ours below the call.

A wrapper in Python stands in the traceback of every error that passes through it. Here the hook runs when the
interpreter looks for what to call, and has returned when the method begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Before:
    """Stands in a class for one of its methods: `hook(instance)` runs at each call, and then the method as it was."""

    def __init__(self, method: Callable[..., Any], hook: Callable[[Any], None]) -> None:
        self._method = method
        self._hook = hook

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._method
        return _Bound(self._method.__get__(instance, owner), self._hook, instance)


class _Called:
    """`__call__` of a bound method. It is looked up at each call, and what was found gets the arguments."""

    def __get__(self, bound: _Bound, owner: type | None = None) -> Any:
        bound.hook(bound.instance)
        return bound.method


class _Bound:
    __slots__ = ("hook", "instance", "method")

    def __init__(self, method: Any, hook: Callable[[Any], None], instance: Any) -> None:
        self.method = method
        self.hook = hook
        self.instance = instance

    __call__ = _Called()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # the class has one of its own, or None
        return self.method.__doc__  # type: ignore[no-any-return]

    @property
    def __wrapped__(self) -> Any:
        """For `inspect`: signature, documentation and source are the method's."""
        return self.method
