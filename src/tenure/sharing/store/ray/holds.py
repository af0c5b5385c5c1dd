"""What this process holds of a Ray store's bytes: told to the index, and given back when it is the last copy."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from tenure.errors import StoreError
from tenure.sharing.store.base import Doer
from tenure.sharing.store.ray.actors import Actors
from tenure.sharing.store.ray.records import Hold, Process, Record

_PERIOD = 0.25  # seconds until the index hears that something was let go


class Pin:
    """Bytes of the object store, as long as a tensor is over them."""

    __slots__ = ("__weakref__", "by", "data", "record")

    def __init__(self, data: memoryview, record: Record, by: Doer) -> None:
        self.data = data
        self.record = record
        self.by = by


class Holds:
    """The pins of one store, and a thread that speaks of them while there are any."""

    def __init__(self, actors: Actors, process: Process) -> None:
        self.process = process
        self._actors = actors
        self._pins: weakref.WeakSet[Pin] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def pin(self, data: memoryview, record: Record, by: Doer) -> Pin:
        """Bytes that were read."""
        pin = Pin(data, record, by)
        self._pins.add(pin)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._speak, name="tenure-ray-holds", daemon=True)
                self._thread.start()
        return pin

    def now(self) -> list[Hold]:
        """All that is held."""
        held = {(pin.record.entry.name, pin.record.entry.version): pin.by for pin in list(self._pins)}
        return [(name, version, by) for (name, version), by in held.items()]

    def find(self, name: str, version: int) -> Pin | None:
        """The bytes of a version, if a tensor here is over them."""
        return next(
            (pin for pin in list(self._pins) if (pin.record.entry.name, pin.record.entry.version) == (name, version)),
            None,
        )

    def restore(self, pin: Pin) -> None:
        """Give bytes back that were lost."""
        with self._actors.stored(self.process, pin.record.entry, pin.data) as record:
            self._actors.index("restore", record, pin.record.ticket)

    def _speak(self) -> None:
        import ray
        from ray.exceptions import RayError

        told: list[Hold] | None = None
        answer: Any = None
        while self._actors.connected:
            try:
                now = self.now()
                if answer is None or now != told:
                    told, answer = now, self._actors.start_listening("listen", self.process, now)
                ready, _ = ray.wait([answer], timeout=_PERIOD)
                if not ready:
                    continue
                wanted, answer = ray.get(answer), None
                for name, version in wanted:
                    pin = self.find(name, version)
                    if pin is not None:
                        self.restore(pin)
            except (RayError, StoreError):  # the index has died: it is told anew once it is there again
                self._actors.forget()
                answer = None
                threading.Event().wait(_PERIOD)
            with self._lock:
                if not told and not self._pins:
                    self._thread = None
                    return
