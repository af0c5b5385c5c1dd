"""The holders of a Ray store as its index calls them: one on each node, and each may be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tenure.sharing.store.ray.records import HOLDER, Process

_AGAIN = 5.0  # seconds until it is worth looking whether there is another node now
_PATIENCE = 60.0  # seconds for a holder that is being started again; Ray itself takes 15 to notice that a node died


class Gone(Exception):
    """There is no holder on that node (any more)."""


class Nodes:
    """The holders of one store."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._handles: dict[str, Any] = {}
        self._other = ""
        self._looked = 0.0

    async def ask(self, node: str, method: str, *args: Any) -> Any:
        """Call a holder. Every call may be made twice, so that one without an answer is made again."""
        from ray.exceptions import ActorDiedError, ActorUnavailableError, ActorUnschedulableError

        end = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            known = node in self._handles
            try:
                return await getattr(self._handle(node), method).remote(*args)
            except ActorUnavailableError:
                if asyncio.get_running_loop().time() > end:
                    raise Gone(node) from None
                await asyncio.sleep(0.1)
            except (ActorDiedError, ActorUnschedulableError, ValueError):  # ValueError: there is none by that name
                self._handles.pop(node, None)
                if not known:
                    raise Gone(node) from None

    async def tell(self, node: str, method: str, *args: Any) -> bool:
        """Call a holder if it is there; whether it was."""
        try:
            await self.ask(node, method, *args)
        except Gone:
            return False
        return True

    async def tell_other(self, node: str, method: str, *args: Any) -> str:
        """Call a holder of some other node; which it was, or "" if there is none."""
        if self._other not in {"", node} and await self.tell(self._other, method, *args):
            return self._other
        now = asyncio.get_running_loop().time()
        if self._other != node and now < self._looked + _AGAIN:
            return ""
        self._other, self._looked = "", now
        for one in self._all():
            if one != node and await self.tell(one, method, *args):
                self._other = one
                break
        return self._other

    async def all(self, method: str) -> dict[str, Any]:
        """Call all holders that are there; their answers by node."""
        nodes = self._all()
        answers = await asyncio.gather(*(self.ask(node, method) for node in nodes), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, Gone):
                raise answer
        return {node: one for node, one in zip(nodes, answers, strict=True) if not isinstance(one, BaseException)}

    async def dead(self, processes: Iterable[Process]) -> set[Process]:
        """Return the processes that have exited, by the report of their node or because it is down. Unknown ones count as alive."""
        by_node: dict[str, list[Process]] = {}
        for process in processes:
            by_node.setdefault(process.node, []).append(process)
        if not by_node:
            return set()
        import ray

        up = {node["NodeID"] for node in await asyncio.to_thread(ray.nodes) if node["Alive"]}
        found: set[Process] = set()
        for node, some in by_node.items():
            try:
                alive = await self.ask(node, "living", some) if node in up else [False] * len(some)
            except Gone:
                continue
            found.update(process for process, lives in zip(some, alive, strict=True) if not lives)
        return found

    def _handle(self, node: str) -> Any:
        import ray

        if node not in self._handles:
            self._handles[node] = ray.get_actor(HOLDER + node, namespace=self._namespace)
        return self._handles[node]

    def _all(self) -> list[str]:
        import ray

        actors = ray.util.list_named_actors(all_namespaces=True)
        names = [one["name"] for one in actors if one["namespace"] == self._namespace]
        return [name.removeprefix(HOLDER) for name in names if name.startswith(HOLDER)]
