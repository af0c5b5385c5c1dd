"""What tenure itself keeps for its user, by names that the user gave: beginnings like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tenure.model import Link

# Each tells the objects that refer to the tensors it keeps, and what the user calls those. Stores add themselves.
keepers: list[Callable[[], Iterable[tuple[object, tuple[Link, ...]]]]] = []
