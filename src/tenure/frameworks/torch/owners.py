"""Which tensors a scope must not end, wherever they were born: what modules, optimizers and native code keep."""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from tenure import heap, references
from tenure.frameworks.torch import autograd
from tenure.frameworks.torch.counts import kept_by_native

# Its scale is made in the first step, for all steps. In torch 2.2 it is elsewhere.
_Scaler: type = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
_OWNERS = (torch.nn.Module, torch.optim.Optimizer, _Scaler)
_known: dict[int, weakref.ref[Any]] = {}


def spared(tensors: list[torch.Tensor]) -> set[int]:
    """The ids of those that a scope leaves alone.

    Buffers of modules, the state of optimizers, gradient scalers and torchmetrics' metrics, and what functools' caches
    lead to; what a live autograd graph leads to by way of Python; and handles that no name leads to, only native code (a
    `.grad` that was looked at, a tensor saved for backward): to end those would free nothing and hurt nobody but the
    gradient.

    Most tensors that outlive their scope are somebody's variables, which the reference count shows. Only for the others
    are the known owners asked, and only if that does not explain them is the heap searched for who leads to them.
    """
    kept = kept_by_native(tensors)
    # What is held by nothing else needs no look at the frames, which is most of the work.
    more = list(map(operator.sub, references.counts(tensors), kept))
    if not any(more):
        return {id(tensor) for tensor, keeps in zip(tensors, kept, strict=True) if keeps}
    native = {id(tensors[at]) for at, count in enumerate(more) if not count and kept[at]}
    suspects: set[int] = set()
    held = [at for at, count in enumerate(more) if count]
    if held:
        named = references.from_frames([tensors[at] for at in held], named=True)
        for at, names in zip(held, named, strict=True):
            if more[at] > names:
                suspects.add(id(tensors[at]))
            elif kept[at] and not names:
                native.add(id(tensors[at]))
    if not suspects:
        return native
    found = suspects & _belongings()
    rest = [tensor for tensor in tensors if id(tensor) in suspects - found]
    if rest:
        # A backward pass that is still to come asks for what its functions, hooks and closures refer to.
        needed, is_complete = references.lead_to(rest, _note, autograd.held)
        if not is_complete:
            for thing in heap.instances(heap.family(*_OWNERS)):
                _note(thing)
        found |= needed | (suspects & _belongings())
    return native | found


def _note(thing: Any) -> bool:
    if issubclass(type(thing), _OWNERS):
        _known[id(thing)] = weakref.ref(thing)
        return False
    # What a cache has is for later calls.
    return type(thing) is heap.CACHE or autograd.is_asked_by_backward(thing)


def _belongings() -> set[int]:
    found: set[int] = set()
    # Modules whose state is in attributes: it grows from step to step.
    metrics = getattr(sys.modules.get("torchmetrics.metric"), "Metric", ())
    for key, ref in _known.copy().items():
        thing = ref()
        if thing is None:
            del _known[key]
        elif isinstance(thing, torch.nn.Module):
            found.update(id(value) for part in (thing._buffers, thing._parameters) for value in part.values())
            if isinstance(thing, metrics):
                found.update(map(id, _tensors([vars(thing).get(name) for name in (*thing._defaults, "_computed")])))
        else:
            found.update(map(id, _tensors(vars(thing) if isinstance(thing, _Scaler) else thing.state)))
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
