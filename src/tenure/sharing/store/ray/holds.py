"""The bytes of a Ray store that this process uses: reported to the index, and returned if they are the last copy."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future

from tenure.errors import StoreError
from tenure.sharing.store.base import Doer
from tenure.sharing.store.ray.actors import Actors
from tenure.sharing.store.ray.records import Hold, Process, Record


class Pin:
    """Bytes of the object store, as long as a tensor is over them."""

    __slots__ = ("__weakref__", "by", "data", "record")

    def __init__(self, data: memoryview, record: Record, by: Doer) -> None:
        self.data = data
        self.record = record
        self.by = by


class Holds:
    """The pins of one store. While there are any, a call waits at the index, and its answer is what the index asks.

    There is no thread that waits: Ray ends the process if one uses it while it is shut down.
    """

    def __init__(self, actors: Actors, process: Process) -> None:
        self.process = process
        self._actors = actors
        self._pins: weakref.WeakSet[Pin] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._listening = False

    def pin(self, data: memoryview, record: Record, by: Doer) -> Pin:
        """Pin bytes that were read."""
        pin = Pin(data, record, by)
        with self._lock:
            self._pins.add(pin)
            listening, self._listening = self._listening, True
        if not listening:
            self._listen()
        return pin

    def now(self) -> list[Hold]:
        """Return all bytes in use."""
        held = {(pin.record.entry.name, pin.record.entry.version): pin.by for pin in self._all()}
        return [(name, version, by) for (name, version), by in held.items()]

    def find(self, name: str, version: int) -> Pin | None:
        """Return the bytes of a version, if a tensor of this process uses them."""
        wanted = (name, version)
        return next(
            (pin for pin in self._all() if (pin.record.entry.name, pin.record.entry.version) == wanted),
            None,
        )

    def restore(self, pin: Pin) -> None:
        """Give bytes back that were lost."""
        with self._actors.stored(self.process, pin.record.entry, pin.data) as record:
            self._actors.index("restore", record, pin.record.ticket)

    def _all(self) -> list[Pin]:
        with self._lock:
            return list(self._pins)

    def _listen(self) -> None:
        now = self.now()
        if not now:
            with self._lock:
                self._listening = bool(self._pins)  # somebody may have read meanwhile
            now = self.now()
        answer = self._actors.begin("listen", self.process, now)
        if self._listening:
            answer.future().add_done_callback(self._asked)

    def _asked(self, answer: Future[list[tuple[str, int]]]) -> None:
        # On Ray's own thread, which must not wait.
        threading.Thread(target=self._answer, args=(answer,), name="tenure-ray-holds", daemon=True).start()

    def _answer(self, answer: Future[list[tuple[str, int]]]) -> None:
        try:
            if not self._actors.connected:
                return
            if answer.exception() is not None:
                if not self._actors.there():
                    raise StoreError("the index was stopped")
                self._actors.index("hello")  # it has died: once it is there again, it hears what is held
            else:
                for pin in filter(None, [self.find(*one) for one in answer.result()]):
                    self.restore(pin)
            self._listen()
        except StoreError:  # nobody can be told: who asks for lost bytes gets the error
            with self._lock:
                self._listening = False
