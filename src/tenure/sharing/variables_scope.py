"""`variable_scope`: a prefix for names of variables, whether they are created or reused, and the store they are in."""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

from tenure.errors import Unsupported
from tenure.frameworks.variables import uncompiled
from tenure.sharing.store import Store
from tenure.sharing.store.names import checked

Reuse = Literal[True, False, "auto"] | None
_REUSES = "None (create), True (it must exist) or 'auto' (either)"


@dataclass(eq=False)
class State:
    """One entered scope. `left` is set if it was left while another, entered later, was not yet.

    `opener` is weak: where an interrupt kept a scope from being left, nobody holds it any more, and it does not count.
    """

    prefix: str
    reuse: Reuse
    store: Store | None
    outer: State | None = None
    opener: Callable[[], object] = object
    left: bool = False


_current: contextvars.ContextVar[State | None] = contextvars.ContextVar("tenure_variable_scope", default=None)
_ROOT = State("", None, None)


class variable_scope:  # noqa: N801 - used like a function, as TensorFlow's is
    """A prefix for names of variables, and the rule for names that exist already.

    Scopes nest: `encoder` inside `model` gives the names `model/encoder/…`. `reuse` follows TensorFlow's rules. A scope
    inside a scope with reuse inherits it, and cannot switch it off with None or False. Each asyncio task has its own
    scopes. A new thread starts outside all scopes, except a worker of `session.submit`.

    Example:
        with tenure.variable_scope("encoder"):
            w = tenure.variable("w", (4, 4))
        with tenure.variable_scope("encoder", reuse=True):
            assert tenure.variable("w") is w

    Arguments:
        name: One or more parts joined by slashes; "" for no prefix; or a scope, to continue it.
        reuse: None creates, and fails if the name exists. True finds, and fails if it does not exist. "auto" does either.
        store: The `Store` of the variables, or its URL. Default: that of the surrounding scope, else
            `Store("memory:variables")`.

    Raises:
        StoreError: The name is not valid.
        Unsupported: `reuse` has another value.
    """

    def __init__(self, name: str | variable_scope, reuse: Reuse = None, *, store: Store | str | None = None) -> None:
        if reuse is not None and not isinstance(reuse, bool) and reuse != "auto":
            raise Unsupported(f"reuse is {_REUSES}, not {reuse!r:.40}")
        if store is not None and not isinstance(store, Store):
            store = Store(store)
        self._at: variable_scope | None = name if isinstance(name, variable_scope) else None
        self._name = "" if isinstance(name, variable_scope) or name == "" else uncompiled(checked)(name)
        self._reuse = reuse
        self.store = store
        self.name: str = self._at.name if self._at is not None else self._name

    def __enter__(self) -> Self:
        outer = _still_open(_current.get())
        around = outer or _ROOT
        if self._at is not None:
            prefix = f"{self._at.name}/" if self._at.name else ""
        else:
            prefix = around.prefix + (f"{self._name}/" if self._name else "")
        self.name = prefix.removesuffix("/")
        given = self.store if self._at is None or self.store is not None else self._at.store
        self.store = around.store if given is None else given
        try:
            _current.set(State(prefix, self._reuse or around.reuse, self.store, outer, weakref.ref(self)))
        except BaseException:  # an interrupt: the block does not begin, and nothing would leave it
            self._leave()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._leave()
        except BaseException:  # an interrupt in the middle of it
            self._leave()
            raise

    def _leave(self) -> None:
        mine = now = _current.get()
        while mine is not None and mine.opener() is not self:
            mine = mine.outer
        if mine is None:
            return  # a generator that is closed in another context than it was begun in
        mine.left = True
        _current.set(_still_open(now))

    def __repr__(self) -> str:
        return f"variable_scope({self.name!r}, reuse={self._reuse!r})"


def current() -> State:
    """Return the scope of the running code; outside, one without prefix that creates variables."""
    return _still_open(_current.get()) or _ROOT


def _still_open(state: State | None) -> State | None:
    while state is not None and (state.left or state.opener() is None):
        state = state.outer
    return state


def shape(value: Any) -> tuple[int, ...] | None:
    """Return a shape that was passed as a number, a tuple, a list, `torch.Size` or `tf.TensorShape`."""
    if value is None:
        return None
    try:
        sizes = tuple(value) if not isinstance(value, int) else (value,)
        found = tuple(int(size) for size in sizes)
        if any(size < 0 or size != given for size, given in zip(found, sizes, strict=True)):
            raise ValueError
    except (TypeError, ValueError):
        raise Unsupported(f"a shape is a tuple of whole numbers, not {value!r:.60}") from None
    return found
