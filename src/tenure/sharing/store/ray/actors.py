"""A process's way to the actors of a Ray store: found or started, called again when they were, and errors that say why."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
import uuid
from collections.abc import Iterator
from typing import Any

from tenure.errors import StoreError
from tenure.sharing.store.base import Entry
from tenure.sharing.store.ray.holder import Holder
from tenure.sharing.store.ray.index import Index
from tenure.sharing.store.ray.records import HOLDER, INDEX, PROTOCOL, Process, Record

_PATIENCE = 90.0  # seconds for an actor that is being started again; Ray itself takes 15 to notice that a node died
_THREADS = 16  # of a holder: that many can put at once


class Actors:
    """The index and the holders of one store, as this process calls them."""

    def __init__(self, namespace: str, url: str) -> None:
        self.url = url
        self._namespace = namespace
        self._handles: dict[str, Any] = {}
        ray = _cluster(url)
        self._cluster = ray.get_runtime_context().gcs_address
        self.node: str = ray.get_runtime_context().get_node_id()
        self.address = str(ray.util.get_node_ip_address())
        try:
            spoken = self.index("hello")
        except AttributeError:
            spoken = "an unknown one"
        if spoken != PROTOCOL:
            raise StoreError(
                f"{url} was opened by another version of tenure, with protocol {spoken}; this version uses {PROTOCOL}. "
                "Use one version on the whole cluster, or another namespace"
            )

    @property
    def connected(self) -> bool:
        """Return whether this process still belongs to the cluster of the store."""
        import ray

        return bool(ray.is_initialized()) and ray.get_runtime_context().gcs_address == self._cluster

    def index(self, method: str, *args: Any, again: bool = False) -> Any:
        """Call the index. With `again`, one more argument tells it whether this was asked before, without an answer."""
        return self._call(INDEX, method, args, again=again)

    def holder(self, method: str, *args: Any) -> Any:
        """Call the holder of this node."""
        return self._call(HOLDER + self.node, method, args, again=False)

    @contextlib.contextmanager
    def stored(self, process: Process, entry: Entry, data: memoryview) -> Iterator[Record]:
        """Store bytes in this node's actor, under a ticket that the index can use before the block exits."""
        record = Record(entry, uuid.uuid4().hex, self.node, self.address)
        try:
            self.holder("store", record.ticket, process, pickle.PickleBuffer(data))
            yield record
        except BaseException:  # an interrupt too: bytes without a name would stay as long as this process
            if self.connected:
                self._handle(HOLDER + self.node).drop.remote(record.ticket)
            raise

    def begin(self, method: str, *args: Any) -> Any:
        """Call the index, and give the reference to its answer."""
        return getattr(self._handle(INDEX), method).remote(*args)

    def there(self) -> bool:
        """Return whether there is an index, also one that is being restarted."""
        import ray

        try:
            ray.get_actor(INDEX, namespace=self._namespace)
        except ValueError:
            return False
        return True

    def _call(self, name: str, method: str, args: tuple[Any, ...], *, again: bool) -> Any:
        import ray
        from ray.exceptions import (
            ActorDiedError,
            ActorUnavailableError,
            ActorUnschedulableError,
            ObjectStoreFullError,
            OutOfDiskError,
            RaySystemError,
            RayTaskError,
        )

        end = time.monotonic() + _PATIENCE
        asked = False
        while True:
            if not self.connected:
                raise StoreError(f"{self.url}: this process has left the store's Ray cluster (ray.shutdown?)")
            try:
                return ray.get(getattr(self._handle(name), method).remote(*args, *([asked] if again else [])))
            except (ActorDiedError, ActorUnavailableError) as error:
                # Ray starts the actor again, on another node if its own died; one that was ended by hand we start.
                if isinstance(error, ActorDiedError):
                    self._handles.pop(name, None)
                if error.actor_init_failed or time.monotonic() > end:
                    raise self._silent(name, error) from None
                asked = True
                time.sleep(0.1)
            except (ActorUnschedulableError, RaySystemError) as error:
                raise self._silent(name, error) from None
            except (ObjectStoreFullError, OutOfDiskError) as error:
                raise self._full(error) from None
            except RayTaskError as error:
                cause = error.cause
                if isinstance(cause, (ObjectStoreFullError, OutOfDiskError)):
                    raise self._full(cause) from None
                raise

    def _handle(self, name: str) -> Any:
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = self._found(name)
        return handle

    def _found(self, name: str) -> Any:
        """Return the actor of that name. If there is none, start one, detached, so that it outlives this process."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        kind, given = (Index, (self._namespace,)) if name == INDEX else (Holder, ())
        options = {"max_concurrency": 10_000} if name == INDEX else {"max_concurrency": _THREADS}
        # The index may move to another node, when its own dies; a holder is where its bytes are.
        where = NodeAffinitySchedulingStrategy(self.node, soft=name == INDEX)
        return (
            ray.remote(kind)
            .options(
                name=name,
                namespace=self._namespace,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                max_restarts=-1,
                scheduling_strategy=where,
                **options,
            )
            .remote(*given)
        )

    def _silent(self, name: str, error: Exception) -> StoreError:
        who = "the index" if name == INDEX else f"the holder of node {self.node[:8]}"
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        first = lines[-1] if getattr(error, "actor_init_failed", False) else lines[0]  # there the cause comes last
        return StoreError(
            f"{self.url}: {who} (actor {name!r}) does not answer: {first}\n"
            f"  fix: is tenure installed on every node, and is the node alive? `ray status` and `ray list actors` show it"
        )

    def _full(self, error: Exception) -> StoreError:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        return StoreError(
            f"{self.url}: the object store of node {self.node[:8]} is full, and nothing was changed: {first}\n"
            f"  fix: delete names, delete references to tensors that were read, or start Ray with a larger object_store_memory"
        )


def _cluster(url: str) -> Any:
    """Ray, in a process that belongs to a cluster."""
    try:
        import ray
    except ImportError:
        raise StoreError(f'{url} needs Ray: pip install "ray"') from None
    if not ray.is_initialized():
        try:
            if os.environ.get("RAY_ADDRESS") == "local":  # by which "auto" would start one
                raise ConnectionError
            ray.init(address="auto", log_to_driver=False, logging_level="WARNING")
        except (ConnectionError, RuntimeError, ValueError):  # none is running, or one that was has died
            raise StoreError(
                f"{url}: this process belongs to no Ray cluster, and none was found; "
                "start one (`ray start --head`) or call ray.init() first"
            ) from None
    if ray.util.client.ray.is_connected():
        raise StoreError(
            f"{url}: a Ray client (ray://…) has no object store of its own; open the store in a task or an actor, "
            "or run this process on a node of the cluster"
        )
    return ray
