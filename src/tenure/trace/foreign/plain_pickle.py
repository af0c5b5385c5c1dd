"""Reading pickles that hold plain data. A pickle is a program; of this one only what builds plain values is run."""

from __future__ import annotations

import io
import pickle
from typing import Any

from tenure.errors import TraceError


class _Asked(pickle.UnpicklingError):
    """A pickle asked for something of a module."""


class _Plain(pickle.Unpickler):
    """Knows dicts, lists, tuples, sets, text, bytes and numbers, for which a pickle needs no class and no function."""

    def find_class(self, module: str, name: str) -> Any:
        raise _Asked(f"{module}.{name}"[:80])

    def persistent_load(self, pid: Any) -> Any:
        raise _Asked("an object from outside")


def loads(data: bytes, name: str) -> Any:
    """The value in a pickle that came from anywhere. `TraceError` if it is more than plain data, or damaged."""
    try:
        return _Plain(io.BytesIO(data)).load()
    except _Asked as error:
        asked = "".join(letter if letter.isprintable() else "?" for letter in str(error))
        raise TraceError(
            f"{name} is not read: it asks for {asked}, and a snapshot is plain data; nothing of it was executed"
        ) from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle fails in any way that its bytes can
        raise TraceError(f"{name} is damaged: as a pickle, {_why(error)}; copy it again, or dump it anew") from None


def _why(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "it is cut off"
    told = " ".join(str(error).split())[:120]
    return f"it fails with {type(error).__name__}" + (f" ({told})" if told.isprintable() and told else "")
