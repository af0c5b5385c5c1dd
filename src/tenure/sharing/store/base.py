"""The interface between a store and its storage: one backend for each kind of URL."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from tenure import sites
from tenure.model import Remains, Site


@dataclass(frozen=True, slots=True)
class Doer:
    """The origin of a change or a lease: the source line, thread and process.

    Attributes:
        site: The `Site`, or None.
        process: The process id.
        thread: The name of the thread.
        time: When, in seconds since 1970.
        host: The name of the machine, or "".
    """

    site: Site | None
    process: int = field(default_factory=os.getpid)
    thread: str = field(default_factory=lambda: threading.current_thread().name)
    time: float = field(default_factory=time.time)
    host: str = ""

    @classmethod
    def here(cls) -> Doer:
        """Return the caller's own line, thread and process."""
        return cls(sites.here())

    def __str__(self) -> str:
        where = f"{self.site}" if self.site else "an unknown place"
        away = "" if self.process == os.getpid() else f", process {self.process}"
        return f"{where} (thread {self.thread}{away}{f' on {self.host}' if self.host else ''})"


@dataclass(frozen=True, slots=True)
class Entry:
    """The description of a name in a store, without its bytes.

    Attributes:
        name: The name.
        version: The version. It rises with every put of this name; none is used twice, also not after a delete.
        framework: "torch", "tensorflow", "jax" or "numpy".
        shape: The size of each dimension.
        dtype: The element type, such as "float32".
        nbytes: The size in bytes.
        put: The `Doer` that put it.
    """

    name: str
    version: int
    framework: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    put: Doer


@dataclass(frozen=True, slots=True)
class Reading:
    """A tensor that was read from a store.

    Attributes:
        value: The tensor.
        version: Its version.
        copied: Whether its bytes were copied for this reading.
        why: The reason for the copy, or "".
    """

    value: Any
    version: int
    copied: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Grave:
    """A name that was deleted, and by whom."""

    name: str
    version: int
    by: Doer


class Missing(LookupError):
    """There is no such name (any more); the front makes a `NameMissing` of it that says more."""


class Backend(Protocol):
    """The storage of a store's tensors. Names are validated and complete. Any thread may call any method.

    Everything that changes a name is atomic: readers see the old or the new, never half of one.
    """

    url: str

    def put(self, name: str, tensor: Any, by: Doer, expect: int | None) -> int:
        """Set a name to a tensor; its new version. When this has returned, the tensor is there for everybody.

        With `expect`, only if the name's version is this one (0: there is none), else `StoreError` by `conflict`.
        """

    def get(self, name: str, like: str | None) -> Reading:
        """Return the tensor of a name as a tensor of its own framework, or of `like`. Raise `Missing`."""

    def entry(self, name: str) -> Entry | None:
        """Return the entry of a name, or None."""

    def names(self) -> list[str]:
        """Return all names, in order."""

    def delete(self, name: str, by: Doer, wait: float) -> Remains:
        """End a name, once nobody leases it; what remains of its bytes, and who holds them. Raises `Missing`.

        After `wait` seconds of waiting it raises `StoreError` by `leased`, and the name stays.
        """

    def grave(self, name: str) -> Grave | None:
        """Return who deleted this name last, if that is known."""

    def lease(self, name: str, by: Doer) -> tuple[Reading, str]:
        """Return the tensor, and a token of the lease that prevents deletion. Raise `Missing`."""

    def release(self, name: str, token: str) -> None:
        """End a lease; a token that is unknown (its process was taken for dead) is passed over."""

    def leases(self, name: str) -> list[Doer]:
        """Return who leases this name now, without processes that have exited."""

    def close(self) -> None:
        """Let go of files, maps and connections. Tensors that were handed out stay good."""
