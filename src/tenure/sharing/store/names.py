"""Names of tensors: words joined by slashes, the same for all stores."""

from __future__ import annotations

import unicodedata

from tenure.errors import StoreError

_LONGEST = 512  # bytes, in UTF-8


class BadName(StoreError, ValueError):
    """The error for a value that cannot be a name."""


def checked(name: object) -> str:
    """Return the normalised name. Raise `BadName` with the reason. Unicode letters that look the same are the same (NFC)."""
    if not isinstance(name, str):
        raise BadName(f"a name is a str, not {type(name).__name__}: {name!r:.80}")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise BadName(f"a name must be valid Unicode: {name!r:.80}") from None
    if length <= _LONGEST:
        name = unicodedata.normalize("NFC", name)
        length = len(name.encode())
    if length > _LONGEST:
        raise BadName(f"a name has at most {_LONGEST} bytes; {name[:40]!r}… has {length}")
    for part in name.split("/"):
        wrong = _wrong(part)
        if wrong:
            raise BadName(
                f"{name!r} is not a valid name: {wrong}. Names are parts joined by slashes, as in 'encoder/w'"
            )
    return name


def _wrong(part: str) -> str:
    if not part:
        return "a part is empty (two slashes in a row, a slash at the beginning or the end, or an empty name)"
    if part in {".", ".."}:
        return f"the part {part!r} is not allowed"
    bad = next((one for one in part if unicodedata.category(one) in {"Cc", "Cf", "Zl", "Zp"}), None)
    return f"it has the character {bad!r}" if bad else ""
