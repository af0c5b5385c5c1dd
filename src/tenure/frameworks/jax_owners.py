"""Which arrays belong to a variable of a library: JAX has none of its own, Keras and Flax keep an array in each."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from tenure import heap, references

_CLASSES = (("keras.src.backend.common.variables", "Variable"), ("flax.nnx.variablelib", "Variable"))
_DEPTH = 3  # a variable's attributes, and containers in them: a variable may hold a tree of arrays
_known: dict[int, weakref.ref[Any]] = {}


def spared(arrays: list[Any]) -> set[int]:
    """The ids of those that live variables hold. The heap is searched only if no known variable explains one."""
    loaded = [getattr(sys.modules.get(module), name, None) for module, name in _CLASSES]
    kinds = [kind for kind in loaded if isinstance(kind, type)]
    if not kinds:
        return set()
    more = references.counts(arrays)
    named = references.from_frames(arrays, named=True)
    suspects = {id(array) for array, count, names in zip(arrays, more, named, strict=True) if count > names}
    found = suspects & _inside([variable for ref in list(_known.values()) if (variable := ref()) is not None])
    if found == suspects:
        return found
    variables = list(heap.instances(heap.family(*kinds)))
    _known.clear()
    for variable in variables:
        if type(variable).__weakrefoffset__:  # Flax's have no room for weak references: they are searched for each time
            _known[id(variable)] = weakref.ref(variable)
    return suspects & _inside(variables)


def _inside(level: list[Any]) -> set[int]:
    """The ids of what these hold, in containers too."""
    found: set[int] = set()
    for _ in range(_DEPTH):
        level = heap.referents(level)
        found.update(map(id, level))
        level = [thing for thing in level if type(thing) in (dict, list, tuple)]
    return found
