"""Tensors in the object store of a Ray cluster: named and owned by detached actors, read without a copy on their node.

    process ── store bytes ──► Holder (one on each node: owns the bytes, knows their names)
       │                            ▲
       └── name, version, lease ─► Index (one: every change of a name passes here)

What dies with what, and what comes back, is in docs/sharing-ray.md.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from dataclasses import replace
from typing import Any

from tenure.errors import StoreError
from tenure.frameworks import exchange
from tenure.model import Holder, Link, Remains, Remnant, TensorInfo
from tenure.sharing.store import conflict, leased
from tenure.sharing.store.base import Doer, Entry, Grave, Missing, Reading
from tenure.sharing.store.names import checked
from tenure.sharing.store.ray import private
from tenure.sharing.store.ray.actors import Actors
from tenure.sharing.store.ray.holds import Holds
from tenure.sharing.store.ray.records import Process, Record, Use

_SLICE = 5.0  # seconds of one call that waits: so long a delete can outlive a caller that gave up
_TRIES = 3


def connect(rest: str, url: str) -> RayBackend:
    """Return the store of a namespace on the Ray cluster to which this process belongs."""
    return RayBackend(checked(rest) if rest else "tenure", url)


class RayBackend:
    """Named tensors on a Ray cluster."""

    def __init__(self, namespace: str, url: str) -> None:
        self.url = url
        self._actors = Actors(namespace, url)
        self._actors.holder("living", [])  # which starts it: it is asked whether this process still runs
        self._process = Process.here(self._actors.node)
        self._holds = Holds(self._actors, self._process)
        self._closed = False

    def put(self, name: str, tensor: Any, by: Doer, expect: int | None) -> int:
        """Set a name: the holder of this node takes the bytes, then the index gives them to the name."""
        self._open()
        host = exchange.host(tensor)
        entry = Entry(name, 0, host.framework, host.shape, host.dtype, host.data.nbytes, self._here(by))
        for _ in range(_TRIES):
            with self._actors.stored(self._process, entry, host.data) as record:
                outcome, told = self._actors.index("put", record, expect, again=True)
            if outcome == "done":
                return int(told)
            if outcome == "conflict":
                raise conflict(self, name, expect or 0, told)
        where = self._actors.node[:8]
        raise StoreError(f"{self.url}: {name!r} was not put: the store's actor on node {where} fails again and again")

    def get(self, name: str, like: str | None) -> Reading:
        """Return the tensor of a name on the bytes in the object store, after moving them to this node if necessary."""
        self._open()
        by = self._here(Doer.here())
        return self._read(name, like, by, self._actors.index("find", name, self._process, by))

    def entry(self, name: str) -> Entry | None:
        """Return the entry of a name, or None."""
        self._open()
        found: Entry | None = self._actors.index("entry", name)
        return found

    def names(self) -> list[str]:
        """Return all names, in order."""
        self._open()
        return list(self._actors.index("names"))

    def delete(self, name: str, by: Doer, wait: float) -> Remains:
        """End a name, once nobody leases it."""
        self._open()
        ticket = uuid.uuid4().hex
        while True:
            holds = (self._process, self._holds.now())
            once = min(wait, _SLICE)
            outcome, *told = self._actors.index("delete", name, self._here(by), once, ticket, holds)
            if outcome == "missing":
                raise Missing(name)
            if outcome == "done":
                return _remains(*told)
            wait -= once
            if wait <= 0:
                raise leased(self, name, told[0])

    def grave(self, name: str) -> Grave | None:
        """Return who deleted this name last."""
        self._open()
        found: Grave | None = self._actors.index("grave", name)
        return found

    def lease(self, name: str, by: Doer) -> tuple[Reading, str]:
        """Return the tensor, and a lease that is released with this process at the latest."""
        self._open()
        token, use = uuid.uuid4().hex, Use(self._here(by), self._process)
        try:
            found = self._actors.index("lease", name, token, use)
            return self._read(name, None, use.by, found), token
        except BaseException:  # an interrupt too, also one before the answer: nobody else has the token
            with contextlib.suppress(StoreError):  # what the caller must hear is the first trouble
                self.release(name, token)
            raise

    def release(self, name: str, token: str) -> None:
        """End a lease."""
        if not self._actors.connected:
            return
        if not isinstance(threading.current_thread(), threading._DummyThread):
            self._actors.index("release", name, token)
            return
        # A thread that Python did not start. It may be the one on which Ray gets its answers, where the collector found
        # the lease: that must not wait for one.
        other = threading.Thread(target=self._actors.index, args=("release", name, token), daemon=True)
        other.start()
        other.join(_SLICE)

    def leases(self, name: str) -> list[Doer]:
        """Return who leases this name now."""
        self._open()
        return list(self._actors.index("leases", name))

    def close(self) -> None:
        """Do nothing: the actors and the tensors stay."""
        self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise StoreError(f"{self.url} was closed here; open it again with Store({self.url!r})")

    def _here(self, by: Doer) -> Doer:
        return replace(by, host=self._actors.address)

    def _read(self, name: str, like: str | None, by: Doer, found: tuple[Record, list[Any]] | None) -> Reading:
        while True:
            if found is None:
                raise Missing(name)
            record, box = found
            entry = record.entry
            data = _bytes(box)
            if data is not None:
                pin = self._holds.pin(data, record, by)
                own = private.own(data) or data
                value, copied, why = exchange.made(like or entry.framework, own, entry.dtype, entry.shape, pin)
                return Reading(value, entry.version, copied, why)
            mine = self._holds.find(name, entry.version)
            if mine is not None:
                self._holds.restore(mine)
            elif not self._actors.index("lost", record, (self._process, self._holds.now())):
                raise self._lost(record)
            found = self._actors.index("find", name, self._process, by)

    def _lost(self, record: Record) -> StoreError:
        import ray

        entry = record.entry
        where = f"node {record.node[:8]} ({record.address})"
        up = any(node["NodeID"] == record.node and node["Alive"] for node in ray.nodes())
        died = f"its owner on {where} died, and another was started" if up else f"{where} died"
        return StoreError(
            f"{self.url}: the bytes of {entry.name!r} (version {entry.version}) are lost: {died}, "
            "and no other process was reading them\n"
            f"  put: {entry.put}\n"
            f"  fix: put it again (store[{entry.name!r}] = x), or delete the name; other names are not touched"
        )


def _bytes(box: list[Any]) -> memoryview | None:
    """Return the bytes in the object store, after moving them to this node if necessary; None if they are lost."""
    import ray
    from ray.exceptions import ObjectLostError

    try:
        return memoryview(ray.get(box[0])) if box else None
    except ObjectLostError:
        return None


def _remains(entry: Entry, readers: list[Doer]) -> Remains:
    info = TensorInfo(entry.framework, entry.shape, entry.dtype, "ray", entry.nbytes, "deleted", entry.put.site)
    if not readers:
        return Remains((Remnant("freed", entry.nbytes, (info,)),))

    def find() -> list[Holder]:
        return [
            Holder("reader", (Link(f"process {by.process} on {by.host}", "process", by.site),), entry.nbytes)
            for by in readers
        ]

    return Remains(
        (Remnant("held", entry.nbytes, (info,), "the bytes are freed with the last tensor that uses them", find),)
    )
