"""Every exception of tenure. Each message says what happened, where, why, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tenure.model import ending

if TYPE_CHECKING:
    from tenure.findings import Finding
    from tenure.model import Site, TensorInfo


class TenureError(Exception):
    """The base class of every error that tenure raises."""


class TensorReleased(TenureError, RuntimeError):
    """The error for using a released tensor.

    The message shows where the tensor was created, released and used, and how to fix it.

    Attributes:
        tensor: The `TensorInfo` of the released tensor.
        used: The `Site` of the use.
    """

    def __init__(self, message: str, tensor: TensorInfo | None = None, used: Site | None = None) -> None:
        super().__init__(message)
        self.tensor = tensor
        self.used = used


class ScopeError(TenureError, RuntimeError):
    """The error for using a scope incorrectly: entered twice, exited out of order, or required but not open."""


class CapExceeded(TenureError, MemoryError):
    """The error for a scope whose tensors need more bytes than its `cap` allows."""


# By which TensorFlow's autograph knows that it can raise this class again: it wraps what has a constructor of its own.
CapExceeded.__init__ = Exception.__init__  # type: ignore[method-assign]


class Unsupported(TenureError, TypeError):
    """The error for an operation that the object or the framework does not support.

    Attributes:
        finding: The `Finding` that explains the error by a rule of `tenure rules`, or None.
    """

    finding: Finding | None = None

    @staticmethod
    def of(error: BaseException | None) -> Finding | None:
        """Return the finding that an error carries if the error is `Unsupported`, else None. Runs no user code."""
        found = vars(error).get("finding") if issubclass(type(error), Unsupported) else None
        return cast("Finding | None", found)


class TraceError(TenureError, ValueError):
    """The error for a trace that cannot be written or read. The message names the file and the problem."""


def described(error: BaseException) -> str:
    """Return `repr` of an error, or its class where the user's own `__repr__` fails."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001
        return type(error).__name__


_FIXES = {
    "scope exit": "return it from the scope, call `tenure.keep(x)` before the scope ends, or create it outside the scope",
    "session close": "return it from the run, call `tenure.keep(x)` inside it, or use it before the session is closed",
    "dispose": "call `tenure.dispose(x)` after the last use, or copy what you need first",
    "delete": "call `x.delete()` after the last use, or copy what you need first: `jnp.copy(x)`",
    "donate": "rebind the name to the result (`x = f(x)`), or remove the argument from `donate_argnums`",
}


def epitaph(tensor: TensorInfo) -> str:
    """Return the one-line repr of a released tensor: what it was, and where and by what it was released."""
    return f"<released {tensor.label}: {ending(tensor)}>"


def released(tensor: TensorInfo, op: str, used: Site | None) -> TensorReleased:
    """Return the error for using the released `tensor` in `op`."""
    from tenure import sites

    used = used or sites.here()
    lines = [
        f"{_use_of(tensor.label, op)} after it was released",
        f"  created:  {_place(tensor.born)}",
        f"  released: {_end(tensor)}",
        f"  used:     {_place(used)}",
        f"  fix:      {_FIXES.get(tensor.cause, _FIXES['dispose'])}",
    ]
    return TensorReleased("\n".join(lines), tensor, used)


def _use_of(what: str, op: str) -> str:
    """Return the clause that names the use: `sum() used X`, `.grad was read on X`, or `X was used`."""
    if op.startswith("."):
        return f"{op} was read on {what}"
    return f"{op} used {what}" if op else f"{what} was used"


def _end(tensor: TensorInfo) -> str:
    by = {
        "scope exit": f"by the exit of scope {tensor.scope!r}",
        "session close": f"by the close of session {tensor.scope!r}",
    }.get(tensor.cause, f"by {tensor.cause}" if tensor.cause else "")
    if tensor.ended:
        return f"{by} at {_place(tensor.ended)}" if by else _place(tensor.ended)
    return f"{by}, place unknown" if by else "place unknown"


def _place(site: Site | None) -> str:
    if site is None:
        return "unknown (tenure records where tensors are created only inside a scope)"
    return f"{site}" + (f":  {site.text}" if site.text else "")


class StoreError(TenureError, RuntimeError):
    """The error for what a store cannot do. The message names the store, the entry and the reason."""


class NameTaken(StoreError, ValueError):
    """The error for creating a variable or a store entry whose name already exists.

    Attributes:
        first: The `Site` where the name was created, or None if it is unknown.
        again: The `Site` that tried to create it again.
    """

    first: Site | None = None
    again: Site | None = None


class NameMissing(StoreError, KeyError):
    """The error for a name that no variable or store entry has.

    Attributes:
        asked: The `Site` that asked for the name.
        near: The `Site` where a similar name was created, or None if there is none.
    """

    asked: Site | None = None
    near: Site | None = None

    __str__ = Exception.__str__  # KeyError shows its argument's repr, which is not a sentence


class SessionClosed(TenureError, RuntimeError):
    """The error for using a closed session.

    Attributes:
        opened: The `Site` where the session was opened.
        closed: The `Site` where it was closed.
        used: The `Site` of the rejected use.
    """

    opened: Site | None = None
    closed: Site | None = None
    used: Site | None = None
