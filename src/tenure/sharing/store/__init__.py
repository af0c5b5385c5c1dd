"""`Store`: named tensors in memory, in files, or on a Ray cluster."""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import warnings
import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, cast

from tenure.errors import NameMissing, NameTaken, StoreError
from tenure.model import Remains, size
from tenure.sharing.store.base import Backend, Doer, Entry, Missing, Reading
from tenure.sharing.store.names import BadName, checked

# One kind of URL is one module here with a function `connect(rest, url)`.
KINDS = ("memory", "file", "ray")


class CopyWarning(UserWarning):
    """A tensor was copied when it was read from a store as a tensor of another framework."""


class Store(MutableMapping[str, Any]):
    """A mapping from names to tensors, shared by functions, threads, processes or machines.

    Names are parts joined by slashes: `encoder/w`. A tensor that was read stays valid when its name is set again or
    deleted.

    Example:
        store = tenure.Store("memory:")
        store["encoder/w"] = weight
        store.get("encoder/w", like="jax")

    Arguments:
        url: Where the tensors are stored. "memory:" is this process, and "memory:NAME" is one store for all who use that
            name. "file:PATH" is a folder that processes share and that stays. "ray:NAMESPACE" is the object store of a
            Ray cluster.

    Raises:
        StoreError: The URL is wrong, or the store cannot be opened.
    """

    def __init__(self, url: str = "memory:") -> None:
        self._backend = _connect(url)
        self._prefix = ""
        # What can be read without asking the backend; in a list, which all scopes of this store share.
        self._known: list[Mapping[str, Any]] = [getattr(self._backend, "known", {})]

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._backend.url

    def __getitem__(self, name: str) -> Any:
        try:
            return self._known[0][self._prefix + name].value
        except (KeyError, TypeError):
            return self.read(name).value

    def __setitem__(self, name: str, tensor: Any) -> None:
        self._backend.put(self._whole(name), tensor, Doer.here(), None)

    def __delitem__(self, name: str) -> None:
        self.delete(name)

    def __contains__(self, name: object) -> bool:
        try:
            return self._backend.entry(self._whole(name)) is not None
        except BadName:
            return False

    def __iter__(self) -> Iterator[str]:
        start = len(self._prefix)
        return iter([name[start:] for name in self._backend.names() if name.startswith(self._prefix)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        inside = f" under {self._prefix!r}" if self._prefix else ""
        return f"<Store {self.url}{inside}, {len(self)} names>"

    def get(self, name: str, default: Any = None, *, like: str | None = None) -> Any:
        """Return the tensor of a name, or `default` if there is none.

        Frameworks share the bytes through DLPack where they can. Otherwise a `CopyWarning` gives the reason for the copy.

        Arguments:
            name: The name.
            default: The result if nothing has this name.
            like: Return a tensor of this framework: "torch", "jax", "tensorflow" or "numpy".
        """
        if like is None:
            with contextlib.suppress(KeyError, TypeError):
                return self._known[0][self._prefix + name].value
        try:
            reading = self._backend.get(self._whole(name), like)
        except Missing:
            return default
        if reading.copied and like is not None:
            warnings.warn(f"{name!r} was copied: {reading.why}", CopyWarning, stacklevel=2)
        return reading.value

    def read(self, name: str, *, like: str | None = None) -> Reading:
        """Return the tensor of a name together with its version, and whether its bytes were copied."""
        whole = self._whole(name)
        try:
            return self._backend.get(whole, like)
        except Missing:
            raise self._missing(whole) from None

    def put(self, name: str, tensor: Any, *, expect: int | None = None) -> int:
        """Set a name to a tensor, and return its new version.

        Arguments:
            name: The name.
            tensor: The tensor.
            expect: Set the name only if its version is still this one; 0 means that it must not exist.

        Raises:
            StoreError: The version is another one. The message shows who changed it; nothing is changed.
            NameTaken: `expect` is 0 and the name exists.
        """
        return self._backend.put(self._whole(name), tensor, Doer.here(), expect)

    def version(self, name: str) -> int:
        """Return the version of a name, or 0 if it does not exist. Each put increases it; no version is used twice."""
        entry = self._backend.entry(self._whole(name))
        return entry.version if entry else 0

    def entry(self, name: str) -> Entry:
        """Return what the store knows about a name without reading its bytes: shape, dtype, size, version, and who put it."""
        whole = self._whole(name)
        entry = self._backend.entry(whole)
        if entry is None:
            raise self._missing(whole)
        return entry

    def delete(self, name: str, *, wait: float = 0) -> Remains:
        """Delete a name, and return what remains of its bytes and what retains them.

        Arguments:
            name: The name.
            wait: The seconds to wait for leases of the name.

        Raises:
            StoreError: The name is still leased. The message shows by whom; nothing is deleted.
            NameMissing: The name does not exist.
        """
        whole = self._whole(name)
        try:
            return self._backend.delete(whole, Doer.here(), wait)
        except Missing:
            raise self._missing(whole) from None

    def lease(self, name: str) -> Lease:
        """Return a lease, which prevents the deletion of the name: `with store.lease("w") as w:`."""
        whole = self._whole(name)
        try:
            reading, token = self._backend.lease(whole, Doer.here())
        except Missing:
            raise self._missing(whole) from None
        try:
            return Lease(self._backend, whole, reading, token)
        except BaseException:  # an interrupt: nobody else has the token
            self._backend.release(whole, token)
            raise

    def leases(self, name: str) -> list[Doer]:
        """Return who leases this name now."""
        return self._backend.leases(self._whole(name))

    def scope(self, prefix: str) -> Store:
        """Return the names below a prefix as a store: `store.scope("encoder")["w"]` is `store["encoder/w"]`."""
        below = Store.__new__(Store)
        below._backend, below._known = self._backend, self._known
        below._prefix = self._whole(prefix.removesuffix("/")) + "/"
        return below

    def close(self) -> None:
        """Close files and connections. Tensors that were read stay valid; the store cannot be used again."""
        self._known[0] = {}
        self._backend.close()

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the tensor of a name. If there is none, put `default` first; of several callers only one puts."""
        while True:
            try:
                return self[name]
            except NameMissing:
                with contextlib.suppress(NameTaken):
                    self.put(name, default, expect=0)

    def __copy__(self) -> Store:
        return self

    def __deepcopy__(self, memo: Any) -> Store:
        return self  # a copy of a model that uses a store uses the same one

    def __reduce__(self) -> tuple[Any, ...]:
        if self.url.startswith("memory:"):
            raise StoreError(
                f"{self.url} is in this process, and cannot be sent to another; "
                'processes share tensors in a "file:PATH" or "ray:NAMESPACE" store'
            )
        return _opened, (self.url, self._prefix)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _whole(self, name: object) -> str:
        return checked(self._prefix + name if isinstance(name, str) else name)

    def _missing(self, name: str) -> NameMissing:
        return missing(self._backend, name)


def _opened(url: str, prefix: str) -> Store:
    store = Store(url)
    return store.scope(prefix) if prefix else store


class Lease:
    """A promise that a name of a store is not deleted, until `release()` or the exit of the `with` block."""

    def __init__(self, backend: Backend, name: str, reading: Reading, token: str) -> None:
        self.name = name
        self.reading = reading
        self._give_back = functools.partial(backend.release, name, token)
        self._finalizer = weakref.finalize(self, self._give_back)

    @property
    def value(self) -> Any:
        """The tensor."""
        return self.reading.value

    @property
    def active(self) -> bool:
        """True until the lease is released."""
        return self._finalizer.alive

    def release(self) -> None:
        """Release the lease. A second call has no effect."""
        try:
            self._finalizer()
        except BaseException:  # an interrupt may have come before the store was told
            self._give_back()
            raise

    def __enter__(self) -> Any:
        return self.value

    def __exit__(self, *exc: object) -> None:
        self.release()


def missing(backend: Backend, name: str) -> NameMissing:
    """Return the error for a name that does not exist: who deleted it, and which names are similar."""
    lines = [f"the store {backend.url} has no tensor named {name!r}"]
    grave = backend.grave(name)
    if grave is not None:
        lines.append(f"  deleted: {grave.by}")
    names = backend.names()
    near = difflib.get_close_matches(name, names, 3, 0.6) or [one for one in names if one.endswith(f"/{name}")][:3]
    if near:
        lines.append(f"  nearest: {', '.join(map(repr, near))}")
    elif not names:
        lines.append("  the store is empty")
    lines.append(f"  fix:     put it first (store[{name!r}] = x), or use store.get({name!r}), which returns None")
    if not names and backend.url.startswith("memory:"):
        lines.append("           a memory: store exists in one process; between processes, use Store('file:PATH')")
    return NameMissing("\n".join(lines))


def conflict(backend: Backend, name: str, expect: int, entry: Entry | None) -> StoreError:
    """Return the error for a put whose `expect` is out of date: the current version, and who put it."""
    now = f"it is at version {entry.version}, put by {entry.put}" if entry else "it does not exist"
    wanted = f"was expected to be at version {expect}" if expect else "was expected not to exist"
    kind = StoreError if expect else NameTaken
    return kind(f"{_told(backend)} {name!r} {wanted}, but {now}; nothing was changed. Read it again, and retry")


def leased(backend: Backend, name: str, holders: list[Doer], *, mine: bool = False) -> StoreError:
    """Return the error for deleting a name that is leased. `mine`: the caller itself holds the lease."""
    lines = [f"{_told(backend)} {name!r} is in use and was not deleted"]
    lines += [f"  leased: {holder}" for holder in holders]
    if mine:
        lines.append("  fix:    release the lease first: it belongs to this thread, which would wait for itself")
    else:
        lines.append(f"  fix:    release those leases, or wait for them: store.delete({name!r}, wait=seconds)")
    return StoreError("\n".join(lines))


def _told(backend: Backend) -> str:
    return f"{backend.url.removesuffix(':')}:"


def described(entry: Entry) -> str:
    """Return an entry as one line, for lists."""
    sizes = ", ".join(map(str, entry.shape))
    return f"{entry.name}  {entry.framework} {entry.dtype}[{sizes}]  {size(entry.nbytes)}  version {entry.version}"


def _connect(url: str) -> Backend:
    kind, colon, rest = url.partition(":") if isinstance(url, str) else ("", "", "")
    if not colon or kind not in KINDS:
        told = ", ".join(f'"{one}:…"' for one in KINDS)
        meant = f"; did you mean {f'file:{url}'!r}?" if isinstance(url, str) and url and not colon else ""
        raise StoreError(f"{url!r} is not a store: the URL begins with one of {told}{meant}")
    module = importlib.import_module(f"tenure.sharing.store.{kind}")
    return cast("Backend", module.connect(rest, url))
