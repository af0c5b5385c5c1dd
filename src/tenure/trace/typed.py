"""Values of declared types out of JSON that anyone may have written."""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_MOST = 1 << 62  # of a number: sums of them stay within what columns hold


def made(kind: Any, value: Any) -> Any:
    """Return the value as one of that type: a dataclass, a list or tuple of one type, a dict, a union, or a plain one.

    Raises TypeError for anything else.
    """
    if kind is Any:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        if not isinstance(value, dict) or not value.keys() <= hints.keys():
            raise TypeError(f"no {kind.__name__}")
        return kind(**{name: made(hints[name], each) for name, each in value.items()})
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value)
    if origin is Literal:
        if value not in [one for one in arguments if type(one) is type(value)]:
            raise TypeError("an unexpected value")
        return value
    if origin in (list, tuple):
        if not isinstance(value, list):
            raise TypeError("no list")
        return origin(made(arguments[0], each) for each in value)
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError("no dict")
        return {made(arguments[0], key): made(arguments[1], each) for key, each in value.items()}
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (isinstance(value, int | float) and not -_MOST <= value <= _MOST):
        raise TypeError(f"no {kind}")
    return value


def _one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        try:
            return made(kind, value)
        except TypeError:
            continue
    raise TypeError("an unexpected type")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return {name: hint for name, hint in get_type_hints(kind).items() if name in kind.__dataclass_fields__}  # type: ignore[attr-defined]
