"""Names of tensors: words joined by slashes, the same for all stores."""

from __future__ import annotations

import unicodedata

from tenure.errors import StoreError

_LONGEST = 512  # bytes, in UTF-8


class BadName(StoreError, ValueError):
    """What was given cannot be a name."""


def checked(name: object) -> str:
    """The name, or `BadName` with what is wrong with it. Letters that look the same in Unicode are the same (NFC)."""
    if not isinstance(name, str):
        raise BadName(f"a name is a str, not {type(name).__name__}: {name!r:.80}")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise BadName(f"a name must be text that can be written down: {name!r:.80}") from None
    if length <= _LONGEST:
        name = unicodedata.normalize("NFC", name)
        length = len(name.encode())
    if length > _LONGEST:
        raise BadName(f"a name has at most {_LONGEST} bytes, and {name[:40]!r}… has {length}")
    for part in name.split("/"):
        wrong = _wrong(part)
        if wrong:
            raise BadName(f"{name!r} is no name: {wrong}. Names are words joined by slashes, as in 'encoder/w'")
    return name


def _wrong(part: str) -> str:
    if not part:
        return "there is an empty word (two slashes, one at an end, or no name at all)"
    if part in {".", ".."}:
        return f"{part!r} is no word"
    bad = next((one for one in part if unicodedata.category(one) in {"Cc", "Cf", "Zl", "Zp"}), None)
    return f"it has the character {bad!r}" if bad else ""
