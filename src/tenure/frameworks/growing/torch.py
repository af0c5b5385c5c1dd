"""What grows in torch: buffers by birthplace, autograd graphs that span many steps, memory shared with workers."""

from __future__ import annotations

import functools
import operator
import os
from bisect import bisect
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from tenure import heap, stacks
from tenure.frameworks.base import Buffer, Crowd, Growing, Source
from tenure.frameworks.torch import autograd, step_hooks
from tenure.frameworks.torch.adapter import ADAPTER, address, is_symbolic, storage_of
from tenure.model import size

_STEPS = 64  # whose graphs are told apart
_NODES = 50_000  # looked at, at most
_FILES = Path("/proc/self/fd")
_SHARED = "/torch_"  # in the name of each file that torch shares memory with


def grower(source: Source) -> Growing:
    """For the recorder that watches torch."""
    return Torch(source)


class Torch:
    """Looks at torch; see `Growing`."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._begun: list[int] = []  # autograd's sequence number at the beginning of each of the last steps
        step_hooks.add(after=self._stepped)
        self._files = _open_files()
        self._tell: Callable[[str, int | None], None] | None = None

    def on_failure(self, tell: Callable[[str, int | None], None]) -> None:
        """Of the host the allocator tells, of a GPU torch's own observer, from when CUDA is in use."""
        self._tell = tell
        self._source.on_failure(lambda nbytes: tell(f"torch could not allocate {size(nbytes)} on the host", nbytes))
        if torch.version.cuda:
            torch.cuda._lazy_call(self._observe)

    def _observe(self) -> None:
        """Called by torch when CUDA starts: what fails here would fail in the user's program."""
        for name in ("_cuda_attach_out_of_memory_observer", "_cuda_attachOutOfMemoryObserver"):
            attach = getattr(torch._C, name, None)
            if attach is not None:
                with suppress(RuntimeError):  # of an allocator without observers, of which the recorder says so
                    attach(self._out_of_memory)

    def _out_of_memory(self, device: int, wanted: int, limit: int, free: int) -> None:
        if self._tell is not None:
            self._tell(
                f"torch could not allocate {size(wanted)} on cuda:{device}, where {size(free)} were free", wanted
            )

    def stop(self) -> None:
        """Take the hooks out again; torch has no way to take an observer out, so it stays silent."""
        step_hooks.remove(self._stepped)
        self._tell = None
        self._source.on_failure(None)

    def _stepped(self, *_: object) -> None:
        self._begun.append(torch._C._autograd._get_sequence_nr())
        del self._begun[:-_STEPS]

    def crowds(self, least: int) -> list[Crowd]:
        """Buffers born at one place; tensors whose graph spans steps; tensors in shared memory."""
        found = [crowd for crowd in self.buffers() if crowd.count >= least]
        live: list[Any] = []
        graphs, files = self._has_long_graphs(least), _shared_files(self._files, least) >= least
        if graphs or files:  # to go over all tensors takes long
            live.extend(tensor for tensor in ADAPTER.live() if not is_symbolic(tensor))
        found.extend(self._graphs(live, least) if graphs else ())
        found.extend(_shared(live, least) if files else ())
        live.clear()
        return found

    def buffers(self) -> list[Crowd]:
        """Buffers born at one place."""
        places: dict[str, list[tuple[int, ...]]] = {}  # one line may make several, each with a stack of its own
        for one in self._source.crowds():
            places.setdefault(stacks.plain(one[0]), []).append(one)
        return [_crowd(place, parts) for place, parts in places.items()]

    def graphs(self) -> list[str]:
        """Return the stacks whose operations added nodes to an autograd graph."""
        return [stacks.text(stack) for stack in self._source.graphs()]

    def _has_long_graphs(self, least: int) -> bool:
        """Whether graphs reached from step to step so often; where that is not seen, whether there were so many steps."""
        crossed = self._source.crossed()
        return len(self._begun) >= least and (crossed is None or crossed >= least - 1)

    def _graphs(self, live: list[Any], least: int) -> list[Crowd]:
        """The tensor whose graph has nodes of the most steps: nobody trains through so many."""
        best: tuple[int, int, Any] = (0, 0, None)
        idle = autograd.idle(live)  # what only a graph holds has no name to tell
        with torch._C.DisableTorchFunction():
            for tensor in live:
                node = None if id(tensor) in idle else autograd.grad_fn(tensor)
                if node is not None:
                    steps, nodes = self._span(node)
                    best = max(best, (steps, nodes, tensor), key=lambda found: found[:2])
        steps, nodes, tensor = best
        if steps < least:
            return []
        return [Crowd("torch", "nodes", "", steps, 0, steps, f"{nodes} nodes", [tensor])]

    def _span(self, node: Any) -> tuple[int, int]:
        """Of how many steps there are nodes in a graph, and how many nodes it has."""
        steps: set[int] = set()
        known, queue = {node}, [node]
        while queue and len(known) < _NODES:
            node = queue.pop()
            number = node._sequence_nr()
            if number < 1 << 63:  # not what adds up a parameter's gradient: that is as old as the parameter
                steps.add(bisect(self._begun, number))
            for after, _ in node.next_functions:
                if after is not None and after not in known:
                    known.add(after)
                    queue.append(after)
        return len(steps), len(known)

    def expects_steps(self) -> bool:
        """Whether there is an optimizer, or was: with the first of a class torch marks its method."""
        return any(getattr(vars(kind).get("step"), "hooked", False) for kind in heap.family(Optimizer))

    def members(self, crowd: Crowd) -> Sequence[Any]:
        """Addresses, of those that are buffers."""
        return self._source.members(list(crowd.members)) if crowd.what == "buffers" else crowd.members

    def held(self, crowd: Crowd, members: Sequence[Any]) -> tuple[list[Any], list[Buffer]]:
        """Handles on these addresses; where there is none, the buffers that the graph saved."""
        if crowd.what != "buffers":
            return list(members), [buffer for handle in members for buffer in ADAPTER.buffers(handle)]
        wanted = set(members)
        live = [tensor for tensor in ADAPTER.live() if storage_of(tensor) is not None]
        handles = [tensor for tensor in live if address(tensor) in wanted]
        buffers = {buffer.key: buffer for handle in handles for buffer in ADAPTER.buffers(handle)}
        if not handles:
            graph = autograd.Graph(live, autograd.idle(live))
            graph.savers(lambda value: self._note(value, wanted, buffers))
            graph.clear()
        live.clear()
        return handles, list(buffers.values())

    def _note(self, value: Any, wanted: set[Any], buffers: dict[Any, Buffer]) -> bool:
        if issubclass(type(value), torch.Tensor) and address(value) in wanted:
            buffers.update((buffer.key, buffer) for buffer in ADAPTER.buffers(value))
        return False

    def viewed(self, handles: list[Any]) -> int:
        """Return how many bytes of one buffer these handles show together, of the buffer that they show most of.

        A view keeps its base in native code. A base without other references does not count.
        """
        shown: dict[Any, int] = {}
        idle = autograd.idle(handles)
        with torch._C.DisableTorchFunction():
            for handle in handles:
                if id(handle) in idle:
                    continue
                shown[address(handle)] = shown.get(address(handle), 0) + handle.numel() * handle.element_size()
        return max(shown.values(), default=0)

    def facts(self, handle: Any) -> dict[str, Any]:
        """What decides about the fault."""
        with torch._C.DisableTorchFunction():
            storage = storage_of(handle)
            whole = 0 if storage is None else storage.nbytes()
            return {
                "graph": autograd.grad_fn(handle) is not None,
                "shape": list(handle.shape),
                "dtype": str(handle.dtype).removeprefix("torch."),
                "bytes": handle.numel() * handle.element_size(),
                "whole": whole,
                "shared": handle.is_shared() if handle.device.type == "cpu" else False,
                "parameter": isinstance(handle, torch.nn.Parameter),
            }


def _crowd(place: str, parts: list[tuple[int, ...]]) -> Crowd:
    where, count, nbytes, used, steps = zip(*parts, strict=True)
    distinct = functools.reduce(operator.or_, steps).bit_count()
    return Crowd("torch", "buffers", place, sum(count), sum(nbytes), distinct, "", where, max(used))


def _shared(live: list[Any], least: int) -> list[Crowd]:
    """Tensors on memory that came from another process: each keeps a file descriptor."""
    storages = [(tensor, storage_of(tensor)) for tensor in live]
    found = [
        (tensor, one) for tensor, one in storages if one is not None and one.device.type == "cpu" and one.is_shared()
    ]
    if len(found) < least:
        return []
    members = [tensor for tensor, _ in found]
    return [Crowd("torch", "shared", "", len(found), sum(one.nbytes() for _, one in found), members=members)]


def _open_files() -> int:
    try:
        return len(os.listdir(_FILES))  # noqa: PTH208 - the quickest way
    except OSError:
        return 0


def _shared_files(before: int, least: int) -> int:
    """Count the descriptors of torch's shared memory, once `least` more files are open than before.

    Queues and data sets keep files open as well. To go over all tensors because of those would be slow.
    """
    if _open_files() < before + least:
        return 0
    count = 0
    for name in os.listdir(_FILES):  # noqa: PTH208
        with suppress(OSError):  # closed since
            count += _SHARED in os.readlink(_FILES / name)  # noqa: PTH115
    return count
