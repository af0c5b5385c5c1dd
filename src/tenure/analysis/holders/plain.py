"""Looking at objects without running their code: no `repr`, `==`, `hash`, properties or `__getattr__` of the user's."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import compress, tee
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, TypeGuard, TypeVar

Entries = dict[Any, Any]

_T = TypeVar("_T")
_ATOMS = (str, int, float, bool, complex, bytes, type(None))
_LONGEST = 40


def is_a(thing: object, kind: type | tuple[type, ...]) -> bool:
    """isinstance that does not ask a proxy's `__class__`."""
    return issubclass(type(thing), kind)


def exactly(thing: object, kinds: Iterable[type]) -> bool:
    """Whether the object's class is one of these itself; a metaclass is not asked for `==` or a hash."""
    return any(type(thing) is kind for kind in kinds)


def of(kinds: Container[int], things: Iterable[_T]) -> Iterator[_T]:
    """Those of the things whose class has one of these ids, quickly."""
    first, second = tee(things)
    return compress(first, map(kinds.__contains__, map(id, map(type, second))))


def is_dict(thing: object) -> TypeGuard[Entries]:
    """Whether this is a dict itself, no subclass."""
    return type(thing) is dict


def is_tuple(thing: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether this is a tuple itself, no subclass."""
    return type(thing) is tuple


def class_name(kind: Any) -> str:
    """A class's name, whatever its metaclass says."""
    return str(type.__dict__["__qualname__"].__get__(kind)).replace("<locals>.", "")


def module_name(kind: type) -> str:
    """The name of the module that a class says it is from."""
    found: object = type.__dict__["__module__"].__get__(kind)
    return found if type(found) is str else ""


def class_attribute(kind: Any, name: str) -> object:
    """What stands in a class or its bases under this name, whatever its metaclass says."""
    return next((space[name] for space in _spaces(kind) if name in space), None)


def _spaces(kind: Any) -> list[Any]:
    return [type.__dict__["__dict__"].__get__(base) for base in type.__dict__["__mro__"].__get__(kind)]


def attributes(thing: object) -> dict[str, object] | None:
    """The instance's own `__dict__`, unless its class computes it."""
    getter: Any = class_attribute(type(thing), "__dict__")
    if not exactly(getter, (GetSetDescriptorType, MemberDescriptorType)):
        return None
    found: object = getter.__get__(thing)
    return found if is_dict(found) else None


def slot(thing: object, value: object) -> str | None:
    """The name of the slot of `thing` that holds `value`."""
    for space in _spaces(type(thing)):
        for name, member in list(space.items()):
            if type(member) is not MemberDescriptorType:
                continue
            try:
                found: object = member.__get__(thing)
            except AttributeError:  # a slot that is empty
                continue
            if found is value:
                return str(name)
    return None


def key_of(space: Any, value: object) -> tuple[bool, object]:
    """Whether `value` is a value of this dict, and under which key; public names go before private ones."""
    keys = [key for key, found in entries(space) if found is value]
    if not keys:
        return False, None
    return True, next((key for key in keys if not (type(key) is str and key.startswith("_"))), keys[0])


def has_key(space: Any, value: object) -> bool:
    """Whether `value` itself is a key of this dict."""
    return any(key is value for key, _ in entries(space))


def entries(space: Entries) -> list[tuple[object, object]]:
    """The keys and values of a dict or subclass, past whatever the subclass overrides."""
    return list(dict[object, object].items(space))


def index_of(items: Any, value: object) -> int | None:
    """The first position of `value` itself."""
    return next((index for index, found in enumerate(items) if found is value), None)


def text(key: object) -> str | None:
    """A dict's key as the user writes it, if it is plain data."""
    if exactly(key, _ATOMS):
        shown = repr(key)
    elif is_tuple(key):
        inner = [text(part) or f"<{class_name(type(part))}>" for part in key]
        shown = f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    elif is_a(key, type):
        shown = class_name(key)
    else:
        return None
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
