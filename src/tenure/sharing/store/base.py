"""What a store asks of the place where its tensors lie: one backend for each kind of URL."""

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
    """Who did something to a name: the line, thread and process, and when (seconds since 1970)."""

    site: Site | None
    process: int = field(default_factory=os.getpid)
    thread: str = field(default_factory=lambda: threading.current_thread().name)
    time: float = field(default_factory=time.time)
    host: str = ""

    @classmethod
    def here(cls) -> Doer:
        """The caller's own line."""
        return cls(sites.here())

    def __str__(self) -> str:
        where = f"{self.site}" if self.site else "an unknown place"
        away = "" if self.process == os.getpid() else f", process {self.process}"
        return f"{where} (thread {self.thread}{away}{f' on {self.host}' if self.host else ''})"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a store knows of a name without reading its bytes.

    `version` rises with every put of this name and never comes again, also not after a delete.
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
    """A tensor as it came out of a store: which version it is, and whether its bytes were copied on the way, and why."""

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
    """Where the tensors of a store lie. Names come checked and complete. Every call may come from any thread.

    Everything that changes a name is atomic: readers see the old or the new, never half of one.
    """

    url: str

    def put(self, name: str, tensor: Any, by: Doer, expect: int | None) -> int:
        """Set a name to a tensor; its new version. When this has returned, the tensor is there for everybody.

        With `expect`, only if the name's version is this one (0: there is none), else `StoreError` by `conflict`.
        """

    def get(self, name: str, like: str | None) -> Reading:
        """The tensor of a name as its own framework's, or as that of `like`. Raises `Missing`."""

    def entry(self, name: str) -> Entry | None:
        """What is known of a name; None if there is none."""

    def names(self) -> list[str]:
        """All names, in order."""

    def delete(self, name: str, by: Doer, wait: float) -> Remains:
        """End a name, once nobody leases it; what remains of its bytes, and who holds them. Raises `Missing`.

        After `wait` seconds of waiting it raises `StoreError` by `leased`, and the name stays.
        """

    def grave(self, name: str) -> Grave | None:
        """Who deleted this name last, if that is known."""

    def lease(self, name: str, by: Doer) -> tuple[Reading, str]:
        """The tensor, and a token for the promise that nobody deletes its name meanwhile. Raises `Missing`."""

    def release(self, name: str, token: str) -> None:
        """End a lease; a token that is unknown (its process was taken for dead) is passed over."""

    def leases(self, name: str) -> list[Doer]:
        """Who leases this name now. Those of dead processes are not among them."""

    def close(self) -> None:
        """Let go of files, maps and connections. Tensors that were handed out stay good."""
