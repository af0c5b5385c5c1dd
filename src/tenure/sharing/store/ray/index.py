"""The actor that knows the names of a Ray store: every change of one passes here, one after the other.

It has no bytes. What it knows is told to the holders before the caller hears of it, so when it dies Ray starts another,
on another node if need be, which asks them.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal

from tenure.sharing.store.base import Doer, Entry, Grave
from tenure.sharing.store.ray.nodes import Gone, Nodes
from tenure.sharing.store.ray.readers import Readers
from tenure.sharing.store.ray.records import GRAVES, PROTOCOL, Burial, Hold, Process, Record, Use

_RESCUE = 5.0  # seconds that readers have to give back bytes that were lost


@dataclass(slots=True)
class Held:
    """A name's tensor as the index knows it, with a reference to its bytes: none if they were lost while it was away.

    `witness` is a node besides the bytes' own whose holder knows of it.
    """

    record: Record
    box: list[Any]
    uses: dict[str, Use]
    witness: str = ""


class Index:
    """Names, versions, leases and graves of one store."""

    def __init__(self, namespace: str) -> None:
        import ray

        self._home = ray.get_runtime_context().get_node_id()
        self._nodes = Nodes(namespace)
        self._readers = Readers()
        self._names: dict[str, Held] = {}
        self._graves: OrderedDict[str, Burial] = OrderedDict()
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._floor = 0  # no new name begins below
        self._started: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._began = time.monotonic()  # those who read must first hear of this actor

    async def hello(self) -> int:
        """Return the protocol version, after the index has read what the holders know."""
        await self._ready()
        return PROTOCOL

    async def put(
        self, record: Record, expect: int | None, again: bool
    ) -> tuple[Literal["done"], int] | tuple[Literal["conflict"], Entry | None] | tuple[Literal["gone"], None]:
        """Give stored bytes to a name. `again`: the caller asked before, and got no answer."""
        await self._ready()
        name, node = record.entry.name, record.node
        async with self._lock(name):
            try:
                held = self._names.get(name)
                now = held.record.entry.version if held else 0
                if held and held.record.ticket == record.ticket:
                    return "done", now
                version = await self._nodes.ask(node, "settled", record.ticket) if again else None
                if version is not None:
                    return "done", version
                if expect is not None and expect != now:
                    await self._nodes.ask(node, "drop", record.ticket)
                    return "conflict", held.record.entry if held else None
                buried = self._graves[name].grave.version if name in self._graves else 0
                whole = record.at(max(now, buried, self._floor) + 1)
                box = await self._nodes.ask(node, "name", whole, held.uses if held else {})
            except Gone:
                return "gone", None
            if box is None:
                return "gone", None
            new = self._names[name] = Held(whole, box, held.uses if held else {})
            await self._note([new])
            if held:
                for place in {held.record.node, held.witness} - {node, new.witness, ""}:
                    await self._nodes.tell(place, "end", name, now)
            return "done", whole.entry.version

    async def find(self, name: str, process: Process, by: Doer) -> tuple[Record, list[Any]] | None:
        """Return the tensor of a name, with a reference to its bytes."""
        await self._ready()
        held = self._names.get(name)
        if held is None:
            return None
        self._readers.add(process, (name, held.record.entry.version, by))
        return held.record, held.box

    async def entry(self, name: str) -> Entry | None:
        """Return the entry of a name, or None."""
        await self._ready()
        held = self._names.get(name)
        return held.record.entry if held else None

    async def names(self) -> list[str]:
        """Return all names, in order."""
        await self._ready()
        return sorted(self._names)

    async def grave(self, name: str) -> Grave | None:
        """Return who deleted this name last."""
        await self._ready()
        burial = self._graves.get(name)
        return burial.grave if burial else None

    async def lease(self, name: str, token: str, use: Use) -> tuple[Record, list[Any]] | None:
        """Return the tensor of a name, and lease the name."""
        await self._ready()
        async with self._lock(name):
            held = self._names.get(name)
            if held is None:
                return None
            held.uses[token] = use
            self._readers.add(use.process, (name, held.record.entry.version, use.by))
            await self._tell(held, "use", name, token, use)
            return held.record, held.box

    async def release(self, name: str, token: str) -> None:
        """End a lease."""
        await self._ready()
        async with self._lock(name):
            held = self._names.get(name)
            if held is not None and held.uses.pop(token, None) is not None:
                await self._tell(held, "unuse", name, token)
        self._wake()

    async def leases(self, name: str) -> list[Doer]:
        """Return who leases a name, without processes that have exited."""
        await self._ready()
        async with self._lock(name):
            held = self._names.get(name)
            if held is None:
                return []
            await self._sweep(held)
            return [use.by for use in held.uses.values()]

    async def delete(
        self, name: str, by: Doer, wait: float, ticket: str, holds: tuple[Process, list[Hold]]
    ) -> tuple[Literal["missing"]] | tuple[Literal["leased"], list[Doer]] | tuple[Literal["done"], Entry, list[Doer]]:
        """End a name once nobody leases it, and say who still reads its bytes."""
        await self._ready()
        self._readers.tell(*holds)
        end = time.monotonic() + wait
        while True:
            changed = self._changed
            async with self._lock(name):
                burial = self._graves.get(name)
                if burial is not None and burial.ticket == ticket:
                    return "done", burial.entry, []  # the caller got no answer the first time
                held = self._names.get(name)
                if held is None:
                    return ("missing",)
                await self._sweep(held)
                if not held.uses:
                    entry = held.record.entry
                    readers = await self._reading(entry)
                    await self._bury(held, Burial(Grave(name, entry.version, by), ticket, entry))
                    return "done", entry, readers
                users = [use.by for use in held.uses.values()]
            left = end - time.monotonic()
            if left <= 0:
                return "leased", users
            try:
                # Also without a word: a leaseholder that was killed says none.
                await asyncio.wait_for(changed.wait(), min(left, 1))
            except TimeoutError:
                continue

    async def listen(self, process: Process, holds: list[Hold]) -> list[tuple[str, int]]:
        """Record what a process reads. The answer comes when a reader is searched for, and names the bytes to return."""
        await self._ready()
        return await self._readers.listen(process, holds)

    async def lost(self, record: Record, holds: tuple[Process, list[Hold]]) -> bool:
        """Somebody could not read these bytes: whether they are there after all, since a reader gave them back."""
        await self._ready()
        self._readers.tell(*holds)
        name, version = record.entry.name, record.entry.version
        end = time.monotonic() + _RESCUE
        while True:
            changed = self._changed
            held = self._names.get(name)
            if held is None or held.record.ticket != record.ticket:
                return True  # put again, deleted or rescued: worth another look
            left = end - time.monotonic()
            anybody = self._readers.want(name, version) or time.monotonic() < self._began + _RESCUE
            if left <= 0 or not anybody:
                return False
            try:
                await asyncio.wait_for(changed.wait(), min(left, 0.5))
            except TimeoutError:
                continue

    async def restore(self, record: Record, ticket: str) -> None:
        """Restore the lost bytes of a version (of the put `ticket`) from a reader."""
        await self._ready()
        name = record.entry.name
        async with self._lock(name):
            held = self._names.get(name)
            if held is None or held.record.ticket != ticket:
                await self._nodes.tell(record.node, "drop", record.ticket)
                return
            box = await self._nodes.ask(record.node, "name", record, held.uses)
            if box is not None:
                new = self._names[name] = Held(record, box, held.uses)
                await self._note([new])
        self._wake()

    def _lock(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _tell(self, held: Held, method: str, *args: Any) -> bool:
        """Call the holder of a name's bytes and that which has a note of it; whether one was there."""
        told = [await self._nodes.tell(node, method, *args) for node in (held.record.node, held.witness) if node]
        return any(told)

    async def _note(self, some: list[Held]) -> None:
        """Have another node note what is stored on this actor's node, so that it is not forgotten with the node."""
        some = [held for held in some if held.record.node == self._home and not held.witness]
        if some:
            witness = await self._nodes.tell_other(self._home, "note", [(held.record, held.uses) for held in some])
            for held in some:
                held.witness = witness

    async def _reading(self, entry: Entry) -> list[Doer]:
        found = await self._readers.ask(entry.name, entry.version)
        dead = await self._nodes.dead(set(found))
        self._readers.forget(dead)
        return [by for process, by in found.items() if process not in dead]

    async def _sweep(self, held: Held) -> None:
        """Leases of processes that died have ended."""
        dead = await self._nodes.dead({use.process for use in held.uses.values()})
        for token in [token for token, use in held.uses.items() if use.process in dead]:
            del held.uses[token]
            await self._tell(held, "unuse", held.record.entry.name, token)

    async def _bury(self, held: Held, burial: Burial) -> None:
        name = burial.grave.name
        if not await self._tell(held, "bury", burial):
            # Its own node died, but that it was deleted is to be known.
            await self._nodes.tell_other(held.record.node, "bury", burial)
        del self._names[name]
        self._remember(burial)

    def _remember(self, burial: Burial) -> None:
        name = burial.grave.name
        self._graves[name] = burial
        self._graves.move_to_end(name)
        while len(self._graves) > GRAVES:
            _, old = self._graves.popitem(last=False)
            self._floor = max(self._floor, old.grave.version)

    async def _ready(self) -> None:
        if self._started is None:
            self._started = asyncio.ensure_future(self._start())
        await asyncio.shield(self._started)

    async def _start(self) -> None:
        """Ask the holders what there is: nothing at first, and everything after this actor died."""
        known = await self._nodes.all("known")
        for _, burials in known.values():
            for burial in burials:
                last = self._graves.get(burial.grave.name)
                if last is None or last.grave.version < burial.grave.version:
                    self._remember(burial)
        found = [(node, *one) for node, (named, _) in known.items() for one in named]
        # Later versions win, and of the same one the bytes over a note.
        found.sort(key=lambda one: (one[1].entry.version, bool(one[2])))
        for node, record, box, uses in found:
            burial = self._graves.get(record.entry.name)
            if burial is None or burial.grave.version < record.entry.version:
                self._names[record.entry.name] = Held(record, box, uses, "" if box else node)
        for node, record, box, _ in found:
            held = self._names.get(record.entry.name)
            if held is None or held.record.entry.version > record.entry.version:
                await self._nodes.tell(node, "end", record.entry.name, record.entry.version)
            elif not box:
                held.witness = node
        await self._note(list(self._names.values()))
        if known:
            # Versions may have been given that no holder knows any more. Microseconds are more than were ever given.
            self._floor = max(self._floor, time.time_ns() // 1000)
