"""The limits that a test's mark names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tenure.errors import ScopeError
from tenure.lifetime.caps import parse_cap

_NAMES = ("max_leaked", "max_peak")


@dataclass(frozen=True)
class Limits:
    """The limits of a test in bytes, or None."""

    leaked: int | None = None
    peak: int | None = None


def of(item: pytest.Item) -> Limits:
    """Return the limits of a test, each from its nearest mark. Raise `UsageError` for an invalid limit."""
    found: dict[str, int] = {}
    for mark in item.iter_markers("tenure"):
        unknown = [name for name in mark.kwargs if name not in _NAMES]
        if mark.args or unknown:
            wrong = repr(unknown[0] if unknown else mark.args[0])
            raise pytest.UsageError(f"{item.nodeid}: the mark tenure takes {' and '.join(_NAMES)} by name, not {wrong}")
        for name, value in mark.kwargs.items():
            if value is not None:
                found.setdefault(name, _bytes(value, name, item.nodeid))
    return Limits(found.get("max_leaked"), found.get("max_peak"))


def _bytes(value: Any, name: str, where: str) -> int:
    if (value == 0 and not isinstance(value, bool)) or (isinstance(value, str) and value.strip() == "0"):
        return 0
    try:
        return parse_cap(value) or 0
    except ScopeError:
        raise pytest.UsageError(
            f'{where}: {name} is a number of bytes, or text such as "10 MiB"; got {value!r}'
        ) from None
