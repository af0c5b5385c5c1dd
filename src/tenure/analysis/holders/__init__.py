"""Who keeps a tensor's buffer alive, as shortest named paths from roots."""

from __future__ import annotations

from typing import Any

from tenure.analysis.holders.find import find as find
from tenure.model import Holder


def holders(x: Any) -> list[Holder]:
    """Who keeps the tensors in `x` alive: shortest paths from variables, globals, threads, graphs.

    Example:
        for holder in tenure.holders(loss):
            print(holder)

    Arguments:
        x: a tensor, or any nesting of containers and objects with tensors in it.

    Returns:
        One holder for each reference that was found; what only native code holds is said to be so.
    """
    from tenure import frameworks
    from tenure.lifetime import containers

    handles: list[Any] = containers.tensors(x)
    keys: set[object] = set()
    for handle in handles:
        framework = frameworks.owner(handle)
        keys.update(buffer.key for buffer in (framework.buffers(handle) if framework is not None else ()))
    return find(handles, keys)
