"""`info`, `holders` and `memory`: what a tensor is, what keeps it alive, and what is alive."""

from __future__ import annotations

import dataclasses
from typing import Any

from tenure import frameworks
from tenure.errors import Unsupported
from tenure.frameworks import ended
from tenure.frameworks.base import Buffer, memories
from tenure.lifetime import regions
from tenure.lifetime.dispose import gather, parts, retained
from tenure.lifetime.own import Owned
from tenure.model import Holder, Holders, Memory, TensorInfo, Usage


def info(x: Any) -> TensorInfo:
    """Return what a tensor is: framework, shape, dtype, device, bytes, state, and where it was created and released.

    It also works on released and on symbolic tensors.

    Example:
        tenure.info(loss).state  # "live"

    Arguments:
        x: One tensor.

    Raises:
        Unsupported: `x` is not a tensor.
    """
    buried = ended.find(x)
    if buried is not None:
        return buried
    value = x.value if isinstance(x, Owned) else x
    framework = frameworks.owner(value)
    if framework is None:
        raise Unsupported(f"info() takes one tensor; got {type(x).__name__}, which is not a tensor")
    found = framework.info(value)
    born, scope = regions.origin(x)
    return dataclasses.replace(found, born=born or found.born, scope=scope)


def holders(x: Any) -> list[Holder]:
    """Return what keeps the tensors in `x` alive: the shortest reference path from each root, such as `self.history[3]`.

    Roots are local variables of every thread, globals, closures, exceptions, views, exported arrays and the autograd
    graph. A reference that exists only in native code is reported as such. For a released tensor the result is what
    still keeps its bytes allocated.

    Example:
        print(tenure.holders(loss))  # one reference path per line

    Arguments:
        x: A tensor, an `Owned`, or containers, objects and modules with tensors in them.

    Raises:
        Unsupported: `x` cannot contain a tensor.
    """
    from tenure.analysis.holders import find

    found = gather(x, "holders")
    live = [handle for handle in found if ended.find(handle) is None]
    handles = [handle.value if isinstance(handle, Owned) else handle for handle in live]
    released = retained(handle for handle in found if ended.find(handle) is not None)
    found.clear()
    live.clear()
    wanted = [buffer for part in (*parts(handles), *released) for buffer in part.buffers]
    return Holders(find(handles, wanted) if wanted else [])


def memory() -> Memory:
    """Count the live tensors, their buffers and bytes, by framework and device. Shared bytes count once.

    Example:
        print(tenure.memory())
    """
    regions.current()  # the hook's Python twin hides the newest handle from the collector until it is asked
    by: dict[tuple[str, str], Usage] = {}
    found: list[Buffer] = []
    owners: dict[object, tuple[str, str]] = {}
    for framework in frameworks.awake():
        for tensor in framework.live():
            for buffer in framework.buffers(tensor):
                found.append(buffer)
                key = owners[buffer.key] = (framework.name, buffer.device)
                by[key] = by.get(key, Usage()) + Usage(1)
    for nbytes, aliases in memories(found):
        by[owners[aliases[0].key]] += Usage(0, 1, nbytes)
    names = {framework.name for framework in frameworks.awake()}
    notes = [note for name, note in _NOTES.items() if name in names]
    return Memory(by, tuple(notes))


_NOTES = {
    "torch": "memory that only the autograd graph references has no tensor in Python and is not counted",
    "numpy": "NumPy arrays are unknown to the garbage collector and are not counted",
}
