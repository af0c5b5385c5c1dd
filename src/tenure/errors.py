"""Every exception of tenure, with the words it says: what happened, why, and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tenure.findings import Finding
    from tenure.model import Site, TensorInfo


class TenureError(Exception):
    """The base of every error that tenure raises."""


class TensorReleased(TenureError, RuntimeError):
    """A tensor was used after its end."""

    def __init__(self, message: str, tensor: TensorInfo | None = None, used: Site | None = None) -> None:
        super().__init__(message)
        self.tensor = tensor
        self.used = used


class ScopeError(TenureError, RuntimeError):
    """A scope was used in a way that has no meaning: entered twice, left out of order, or absent."""


class CapExceeded(TenureError, MemoryError):
    """A scope holds more bytes than its `cap` allows."""


class Unsupported(TenureError, TypeError):
    """tenure was asked for something that this object or this framework cannot do; `finding` says which fault it is."""

    finding: Finding | None = None

    @staticmethod
    def of(error: BaseException | None) -> Finding | None:
        """The finding that an error carries, if it is one of these. Runs no code of the user's."""
        found = vars(error).get("finding") if issubclass(type(error), Unsupported) else None
        return cast("Finding | None", found)


class TraceError(TenureError, ValueError):
    """A trace cannot be made or read: what is wrong with which file."""


def described(error: BaseException) -> str:
    """Return `repr` of an error, or its class where the user's own `__repr__` fails."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001
        return type(error).__name__


_FIXES = {
    "scope exit": "return it from the scope, or say tenure.keep(x) before the scope ends, or make it outside the scope",
    "session close": "return it from the run, or say tenure.keep(x) inside it, or use it before the session is closed",
    "dispose": "move tenure.dispose(x) behind the last use, or keep a copy of what you need before it",
    "delete": "move x.delete() behind the last use, or keep a copy (jnp.copy(x)) before it",
    "donate": "rebind the name to the result (x = f(x)), or take it out of donate_argnums",
}


def epitaph(tensor: TensorInfo) -> str:
    """One line for an ended tensor: what it was, and where and by what it ended."""
    by = f"exit of scope {tensor.scope!r}" if tensor.cause == "scope exit" else tensor.cause
    return f"<ended {tensor.label}: by {by}" + (f" at {tensor.ended.short}>" if tensor.ended else ">")


def released(tensor: TensorInfo, op: str, used: Site | None) -> TensorReleased:
    """The error for using `tensor` in `op` after its end."""
    from tenure import sites

    used = used or sites.here()
    lines = [f"{tensor.label} was used after its end" + (f", by {op}" if op else "")]
    lines.append(f"  born:  {_place(tensor.born)}")
    lines.append(f"  ended: {_end(tensor)}")
    lines.append(f"  used:  {_place(used)}")
    lines.append(f"  fix:   {_FIXES.get(tensor.cause, _FIXES['dispose'])}")
    return TensorReleased("\n".join(lines), tensor, used)


def _end(tensor: TensorInfo) -> str:
    by = {
        "scope exit": f"by the exit of scope {tensor.scope!r}",
        "session close": f"by the close of session {tensor.scope!r}",
    }.get(tensor.cause, f"by {tensor.cause or 'somebody'}")
    return f"{by} at {_place(tensor.ended)}" if tensor.ended else f"{by}, place unknown"


def _place(site: Site | None) -> str:
    if site is None:
        return "place unknown (tenure sees births inside its scopes)"
    return f"{site}" + (f":  {site.text}" if site.text else "")


class StoreError(TenureError, RuntimeError):
    """A store cannot do what was asked: which one, which name, and why."""


class NameTaken(StoreError, ValueError):
    """A name was to be created, and exists: `first` is where it was created, `again` where it was asked for."""

    first: Site | None = None
    again: Site | None = None


class NameMissing(StoreError, KeyError):
    """A name was to be found, and there is none: `asked` is where, `near` names a place where a like one was created."""

    asked: Site | None = None
    near: Site | None = None

    __str__ = Exception.__str__  # KeyError shows its argument's repr, which is no sentence


class SessionClosed(TenureError, RuntimeError):
    """A session was used after its end: `opened` and `closed` say where those were, `used` where the late run is."""

    opened: Site | None = None
    closed: Site | None = None
    used: Site | None = None
