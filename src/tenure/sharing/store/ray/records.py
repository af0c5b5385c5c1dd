"""The records that the actors of a Ray store exchange. They contain references to the tensors' bytes, not the bytes."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from tenure.sharing.store.base import Doer, Entry, Grave

# Rises when these records or the actors' methods change: two tenures that do not understand each other must notice.
PROTOCOL = 1
INDEX = "tenure-store"
HOLDER = "tenure-store-on-"  # and the node's id
GRAVES = 10_000  # how many deleted names are remembered


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the cluster: its node, number, and when it started, since numbers are used again.

    `store` tells apart the stores that one process has opened.
    """

    node: str
    number: int
    started: str
    store: str

    @classmethod
    def here(cls, node: str) -> Process:
        """Return this process, with another store opened."""
        return cls(node, os.getpid(), _started(os.getpid()), uuid.uuid4().hex)

    def lives(self) -> bool:
        """Return whether the process still runs; only its own node knows."""
        try:
            os.kill(self.number, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it is there, and another user's
        return _started(self.number) == self.started


def _started(number: int) -> str:
    """Return when a process started, in ticks since boot; empty if unknown, "ended" for a process that was not waited for."""
    try:
        text = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "ended" if fields[0] in {"Z", "X"} else fields[19]


@dataclass(frozen=True, slots=True)
class Record:
    """A name's tensor: what it is, which put it came by, and on which node its bytes lie."""

    entry: Entry
    ticket: str
    node: str
    address: str

    def at(self, version: int) -> Record:
        """Return the same record with its version."""
        return replace(self, entry=replace(self.entry, version=version))


@dataclass(frozen=True, slots=True)
class Use:
    """Somebody's lease: who, and the process with which it ends."""

    by: Doer
    process: Process


@dataclass(frozen=True, slots=True)
class Burial:
    """A deleted name, which call did it, and what was in the grave's place."""

    grave: Grave
    ticket: str
    entry: Entry


# A tensor that a process holds without a copy: its name, its version, and the line that read it.
Hold = tuple[str, int, Doer]
