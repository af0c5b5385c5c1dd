"""Which tensors belong to a module or an optimizer: a scope must not end those, wherever they were born."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from tenure import frames
from tenure.frameworks.torch.counts import kept_by_native

_known: dict[int, weakref.ref[Any]] = {}


def owned(tensors: list[torch.Tensor]) -> set[int]:
    """The ids of those that are a module's buffer or an optimizer's state.

    Most tensors that outlive their scope are somebody's locals, which the reference count shows. Only for the others
    are the known owners asked, and only if that does not explain them is the heap searched for new owners.
    """
    suspects = _beyond_locals(tensors)
    if not suspects:
        return set()
    found = suspects & _belongings()
    if found != suspects:
        for thing in gc.get_objects():
            if issubclass(type(thing), torch.nn.Module | torch.optim.Optimizer):
                _known[id(thing)] = weakref.ref(thing)
        found = suspects & _belongings()
    return found


def _beyond_locals(tensors: list[torch.Tensor]) -> set[int]:
    suspects: set[int] = set()
    known = frames.local_references(tensors)
    for index, local in enumerate(known):
        # One reference is the list's, one is the argument of getrefcount.
        rest = sys.getrefcount(tensors[index]) - 2 - local
        if kept_by_native(tensors[index]):
            rest -= 1
        if rest > 0:
            suspects.add(id(tensors[index]))
    return suspects


def _belongings() -> set[int]:
    found: set[int] = set()
    for key, ref in list(_known.items()):
        thing = ref()
        if thing is None:
            del _known[key]
        elif isinstance(thing, torch.nn.Module):
            found.update(id(value) for part in (thing._buffers, thing._parameters) for value in part.values())
        else:
            found.update(map(id, _tensors(thing.state)))
    return found


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _tensors(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _tensors(inner)
