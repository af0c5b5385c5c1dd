"""Finding objects by class among all that the garbage collector knows."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import compress
from typing import Any


def instances(test: Callable[[type], bool]) -> Iterator[Any]:
    """Every object whose class passes `test`. Each class is asked once, and no object's own code runs."""
    objects = gc.get_objects()
    wanted = {kind for kind in set(map(type, objects)) if test(kind)}
    found = list(compress(objects, map(wanted.__contains__, map(type, objects)))) if wanted else []
    objects.clear()
    while found:
        yield found.pop()
