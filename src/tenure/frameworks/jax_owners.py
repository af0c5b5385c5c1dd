"""Which arrays outlive a scope: JAX has no variables, Keras and Flax keep an array in each; and caches are for later calls."""

from __future__ import annotations

import sys
from typing import Any

from tenure import heap, references

_VARIABLES = (("keras.src.backend.common.variables", "Variable"), ("flax.nnx.variablelib", "Variable"))


def spared(arrays: list[Any]) -> set[int]:
    """The ids of those that a variable or a cache of functools leads to; sought only for what more than names hold."""
    more = references.counts(arrays)
    if not any(more):
        return set()
    named = references.from_frames(arrays, named=True)
    suspects = [array for array, count, names in zip(arrays, more, named, strict=True) if count > names]
    if not suspects:
        return set()
    loaded = [getattr(sys.modules.get(module), name, None) for module, name in _VARIABLES]
    variables = tuple(kind for kind in loaded if isinstance(kind, type))

    def outlives(thing: Any) -> bool:
        return type(thing) is heap.CACHE or issubclass(type(thing), variables)

    return references.lead_to(suspects, outlives, lambda things: set())[0]
