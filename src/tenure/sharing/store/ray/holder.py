"""The actor that owns the bytes of one node.

In Ray an object ends with the process that put it, so the bytes are put by an actor that outlives everybody on its node.
It also keeps what belongs to each: from what all holders know, a lost index is made anew. Of bytes that lie on the
index's own node another holder has a note, so that after the end of that node it is known what was lost.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from typing import Any

from tenure.sharing.store.ray.records import GRAVES, Burial, Process, Record, Use

Known = tuple[Record, list[Any], dict[str, Use]]


class Holder:
    """The bytes of the tensors that were put on one node, and what is known of them.

    A put comes in two steps: `store` brings the bytes under a ticket, `name` gives them to a name. What was stored by a
    process that died before the second step is dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored: dict[str, tuple[Any, Process]] = {}
        self._named: dict[str, tuple[Record, Any, dict[str, Use]]] = {}
        self._notes: dict[str, tuple[Record, dict[str, Use]]] = {}
        self._graves: OrderedDict[str, Burial] = OrderedDict()
        self._done: OrderedDict[str, int] = OrderedDict()

    def store(self, ticket: str, process: Process, data: Any) -> None:
        """Take a tensor's bytes into the object store."""
        import ray

        with self._lock:
            for one in [one for one, (_, by) in self._stored.items() if not by.lives()]:
                del self._stored[one]
        # Plain bytes, out of band: reading them runs nobody's code, and readers on this node share them.
        ref = ray.put(pickle.PickleBuffer(data))
        with self._lock:
            self._stored[ticket] = (ref, process)

    def drop(self, ticket: str) -> None:
        """Forget what was stored and will get no name."""
        with self._lock:
            self._stored.pop(ticket, None)

    def settled(self, ticket: str) -> int | None:
        """Return the version that a put got, if it succeeded: for callers that retry because no answer came."""
        with self._lock:
            return self._done.get(ticket)

    def name(self, record: Record, uses: dict[str, Use]) -> list[Any] | None:
        """Give stored bytes to a name; a reference to them, or None if they are not here (any more)."""
        entry = record.entry
        with self._lock:
            ref, _ = self._stored.pop(record.ticket, (None, None))
            if ref is None:
                known, kept, _ = self._named.get(entry.name, (None, None, None))
                return [kept] if known is not None and known.ticket == record.ticket else None  # asked twice
            self._named[entry.name] = (record, ref, dict(uses))
            self._done[record.ticket] = entry.version
            while len(self._done) > GRAVES:
                self._done.popitem(last=False)
        return [ref]

    def note(self, records: list[tuple[Record, dict[str, Use]]]) -> None:
        """Remember what lies on another node."""
        with self._lock:
            for record, uses in records:
                self._notes[record.entry.name] = (record, dict(uses))

    def end(self, name: str, version: int) -> None:
        """Let go of a name, up to this version: its bytes lie elsewhere now, or it is deleted."""
        with self._lock:
            if name in self._named and self._named[name][0].entry.version <= version:
                del self._named[name]
            if name in self._notes and self._notes[name][0].entry.version <= version:
                del self._notes[name]

    def bury(self, burial: Burial) -> None:
        """Let go of a deleted name's bytes, and remember who deleted it."""
        grave = burial.grave
        self.end(grave.name, grave.version)
        with self._lock:
            self._graves[grave.name] = burial
            self._graves.move_to_end(grave.name)
            while len(self._graves) > GRAVES:
                self._graves.popitem(last=False)

    def use(self, name: str, token: str, use: Use) -> None:
        """Note a lease."""
        with self._lock:
            for uses in self._uses(name):
                uses[token] = use

    def unuse(self, name: str, token: str) -> None:
        """Release a lease."""
        with self._lock:
            for uses in self._uses(name):
                uses.pop(token, None)

    def _uses(self, name: str) -> list[dict[str, Use]]:
        return [table[name][-1] for table in (self._named, self._notes) if name in table]

    def living(self, processes: list[Process]) -> list[bool]:
        """Return which of these processes of this node still run."""
        return [process.lives() for process in processes]

    def known(self) -> tuple[list[Known], list[Burial]]:
        """Return all records of this node, for a new index; those of other nodes without a reference."""
        with self._lock:
            named: list[Known] = [(record, [ref], dict(uses)) for record, ref, uses in self._named.values()]
            notes: list[Known] = [(record, [], dict(uses)) for record, uses in self._notes.values()]
            return named + notes, list(self._graves.values())
