"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from tenure.errors import ScopeError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse_cap(cap: int | str | None) -> int | None:
    """The cap in bytes; a clear error for anything that is no positive amount."""
    if cap is None:
        return None
    if isinstance(cap, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", cap)
        if match and match[2].upper() in _UNITS and match[1].count(".") <= 1 and match[1] != ".":
            return parse_cap(int(float(match[1]) * _UNITS[match[2].upper()]))
    elif isinstance(cap, int) and not isinstance(cap, bool) and cap > 0:
        return cap
    raise ScopeError(f'a cap is a positive number of bytes, or text such as "512 MiB"; got {cap!r}')
