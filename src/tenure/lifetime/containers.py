"""The tensors inside any Python value: containers, attributes, modules, to any depth, cycles included."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from tenure import frameworks
from tenure.lifetime.own import Owned

_ATOMS = (str, bytes, bytearray, int, float, complex, bool, type(None), type, types.ModuleType, types.CodeType)
_CODE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
)
# Machinery that refers to half the program and owns no tensors.
_MACHINERY = ("logging", "threading", "_thread", "asyncio", "weakref", "concurrent", "multiprocessing", "importlib")


def tensors(value: Any, *, through_code: bool = False) -> list[Any]:
    """Every tensor in `value`, each once, in the order met.

    `through_code` also looks into what functions close over, and into generators: how a returned value can carry a
    tensor out. Without it only data is looked at: to dispose a model must not dispose what its hooks refer to.
    """
    if is_tensor(value) and not through_code and not _has_objects(value):
        return [value]
    return [thing for thing in _walk(value, through_code=through_code) if is_tensor(thing)]


def in_arrays(value: Any) -> set[int]:
    """Return the ids of what NumPy arrays of objects in `value` hold: references that no search shows."""
    arrays = filter(_has_objects, _walk(value, through_code=False))
    return {id(item) for array in arrays for item in sys.modules["numpy"].ndarray.flatten(array).tolist()}


def _walk(value: Any, *, through_code: bool) -> Iterator[Any]:
    """All that may be or contain a tensor, each once, in the order met."""
    seen: dict[int, Any] = {}
    queue = [value]
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, _ATOMS):
            continue
        seen[id(thing)] = thing  # kept, so that no id is used twice during the walk
        yield thing
        queue.extend(reversed(list(_inside(thing, through_code))))


def is_tensor(thing: Any) -> bool:
    """Whether this is a framework's tensor or an owning handle of one."""
    return isinstance(thing, Owned) or frameworks.owner(thing) is not None


def _inside(thing: Any, through_code: bool) -> Iterable[Any]:
    if isinstance(thing, _CODE):
        return _carried(thing) if through_code else ()
    if isinstance(thing, Owned):
        return ()
    framework = frameworks.owner(thing)
    if framework is not None and through_code and framework.info(thing).state == "symbolic":
        return gc.get_referents(thing)  # a tracer carries the arrays that it stands for
    if _has_objects(thing):
        return [*sys.modules["numpy"].ndarray.tolist(thing), *gc.get_referents(thing)]
    if framework is not None:
        return [value for value in gc.get_referents(thing) if type(value) is dict]  # attributes the user gave it
    if type(thing).__module__.partition(".")[0] in _MACHINERY:
        return ()
    # What the collector sees: items, attributes, slots, inline values; it runs no code of the user's.
    return gc.get_referents(thing)


def _has_objects(thing: Any) -> bool:
    """Whether it is a NumPy array of objects, which are unknown to the garbage collector."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and issubclass(type(thing), numpy.ndarray) and bool(thing.dtype.hasobject)


def _carried(thing: Any) -> Iterator[Any]:
    if not isinstance(thing, types.FunctionType):
        yield from gc.get_referents(thing)
        return
    for cell in thing.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that has no value yet
            continue
    # Not all that a function refers to: its globals are everybody's.
    yield from thing.__defaults__ or ()
    yield from (thing.__kwdefaults__ or {}).values()
    yield thing.__dict__
