"""Which tensors a scope must not end, wherever they were born: what modules, optimizers and native code keep."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from tenure import references
from tenure.frameworks.torch.counts import kept_by_native

_known: dict[int, weakref.ref[Any]] = {}


def spared(tensors: list[torch.Tensor]) -> set[int]:
    """The ids of those that a scope leaves alone.

    Buffers of modules and optimizer state; and handles that no name leads to, only native code (a `.grad` that was
    looked at, a tensor saved for backward): to end those would free nothing and hurt nobody but the gradient.

    Most tensors that outlive their scope are somebody's locals, which the reference count shows. Only for the others
    are the known owners asked, and only if that does not explain them is the heap searched for new owners.
    """
    native: set[int] = set()
    suspects: set[int] = set()
    for index, framed in enumerate(references.from_frames(tensors)):
        kept = kept_by_native(tensors[index])
        # One reference is the list's, one is the argument of getrefcount.
        rest = sys.getrefcount(tensors[index]) - 2 - framed - kept
        if rest > 0:
            suspects.add(id(tensors[index]))
        elif kept and not framed:
            native.add(id(tensors[index]))
    if not suspects:
        return native
    found = suspects & _belongings()
    if found != suspects:
        for thing in gc.get_objects():
            if issubclass(type(thing), torch.nn.Module | torch.optim.Optimizer):
                _known[id(thing)] = weakref.ref(thing)
        found = suspects & _belongings()
    return native | found


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
