"""The tensors that a frame's locals hold. Nothing of the user's is called: only types are looked at, and plain containers."""

from __future__ import annotations

from collections.abc import Iterator
from types import GetSetDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any

from tenure import frameworks

if TYPE_CHECKING:
    from tenure.explain.raised import Frame, Raised
    from tenure.model import TensorInfo

_MOST = 4000  # values looked at


def tensors(frame: Frame) -> Iterator[tuple[str, Any]]:
    """The tensors in a frame's locals, by the name under which they are found: `h`, `state['w']`, `self.cache[0]`."""
    count = 0
    for name, value in list(frame.values.items()):
        if not isinstance(name, str) or name.startswith("__"):
            continue
        for path, found in _inside(name, value, 3):
            count += 1
            if count > _MOST:
                return
            if is_tensor(found):
                yield path, found


def ended(raised: Raised) -> list[tuple[str, TensorInfo]]:
    """The tensors of the innermost user frames that are deleted or otherwise at their end."""
    found: list[tuple[str, TensorInfo]] = []
    for frame in reversed(raised.user[-3:]):
        for path, tensor in tensors(frame):
            owner = frameworks.owner_of(type(tensor))
            info = owner.info(tensor) if owner is not None else None
            if info is not None and info.state in ("deleted", "donated", "disposed"):
                found.append((path, info))
        if found:
            return found
    return found


def lookup(frame: Frame, name: str) -> Any:
    """The value of a dotted name in a frame, as far as plain attributes go; None if there is none."""
    first, *rest = name.split(".")
    value: Any = frame.values.get(first, (frame.module or {}).get(first) if type(frame.module) is dict else None)
    for part in rest:
        value = _attributes(value).get(part)
    return value


def items(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What plain containers hold, each with its path; a value that is none, itself."""
    return ((name, item) for name, item in _inside(path, value, 2) if type(item) not in (dict, list, tuple))


def is_tensor(value: Any) -> bool:
    """Return whether a value is a framework's tensor; nothing of its own is called."""
    kind = type(value)
    # A class of a metaclass that answers for itself could do anything when it is looked up.
    meta: Any = type(kind)
    ordinary = meta.__hash__ is type.__hash__ and meta.__getattribute__ is type.__getattribute__
    return ordinary and frameworks.owner_of(kind) is not None


def _inside(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    yield path, value
    if depth == 0:
        return
    kind = type(value)
    if kind is dict:
        for key, item in list(value.items())[:200]:
            if type(key) in (str, int):
                yield from _inside(f"{path}[{key!r}]", item, depth - 1)
    elif kind in (list, tuple):
        for at, item in enumerate(value[:200]):
            yield from _inside(f"{path}[{at}]", item, depth - 1)
    elif depth > 1:
        for name, item in list(_attributes(value).items())[:200]:
            if isinstance(name, str):
                yield from _inside(f"{path}.{name}", item, depth - 2)


def _attributes(value: Any) -> dict[Any, Any]:
    """An object's own attributes, if it keeps them where objects do. A module's are not followed."""
    if issubclass(type(value), ModuleType):
        return {}
    for kind in type.__dict__["__mro__"].__get__(type(value)):
        slot = type.__dict__["__dict__"].__get__(kind).get("__dict__")
        if slot is not None:
            if type(slot) is not GetSetDescriptorType:
                return {}
            found = slot.__get__(value)
            return found if type(found) is dict else {}
    return {}
