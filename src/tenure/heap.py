"""Finding objects by class among all that the garbage collector knows."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any


def instances(kinds: Iterable[type]) -> Iterator[Any]:
    """Every object of just these classes. No object's own code runs; of a class, at most what its metaclass says of its hash."""
    wanted = {*kinds}
    try:
        found = [one for one in gc.get_objects() if type(one) in wanted]
    except TypeError:  # a metaclass says that its classes have no hash; `id` is slower, as it is audited
        numbers = set(map(id, wanted))
        found = [one for one in gc.get_objects() if id(type(one)) in numbers]
    while found:
        yield found.pop()


def family(*kinds: type) -> set[type]:
    """These classes and all that inherit from them."""
    found: set[type] = set()
    waiting = [*kinds]
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting.extend(type.__subclasses__(kind))
    return found
