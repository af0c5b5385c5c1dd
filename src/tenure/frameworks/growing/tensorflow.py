"""What grows in TensorFlow: tensors by birthplace, graphs to which each run adds, functions traced again, kept tapes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from tensorflow.python.client import session
from tensorflow.python.eager import backprop, execute
from tensorflow.python.eager.polymorphic_function import tracing_compilation
from tensorflow.python.framework import errors, ops

from tenure import sites, stacks
from tenure.frameworks.base import Buffer, Crowd, Growing, Source
from tenure.frameworks.tensorflow import ADAPTER


def grower(source: Source) -> Growing:
    """For the recorder that watches TensorFlow."""
    return Tensorflow(source)


class Tensorflow:
    """Looks at TensorFlow; see `Growing`."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._capture = stacks.capturer()
        self._traced: dict[tuple[str, int], int] = {}
        self._tapes: dict[int, list[weakref.ref[Any]]] = {}
        self._runs: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
        self._patches: list[tuple[Any, str, Any, Any]] = []
        self._patch(session.BaseSession, "run", self._running)
        self._patch(backprop.GradientTape, "__init__", self._taping)
        self._patch(tracing_compilation, "_create_concrete_function", self._tracing)

    def stop(self) -> None:
        """Leave everything as it was."""
        for owner, name, original, patched in reversed(self._patches):
            if vars(owner).get(name) is patched:
                setattr(owner, name, original)
        self._patches.clear()
        self._traced.clear()

    def on_failure(self, tell: Callable[[str, int | None], None]) -> None:
        """Of operations and runs of graphs that fail, those for want of memory."""

        def telling(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                try:
                    return original(*args, **kwargs)
                except errors.ResourceExhaustedError as error:
                    tell(_said(error), None)
                    raise

            return call

        def raising(original: Callable[..., Any]) -> Callable[..., Any]:
            def raise_from_not_ok_status(error: Any, name: Any) -> Any:
                if getattr(error, "code", None) == errors.RESOURCE_EXHAUSTED:
                    tell(_said(error.message), None)
                return original(error, name)

            return raise_from_not_ok_status

        self._patch(ops, "raise_from_not_ok_status", raising)
        self._patch(execute, "execute", telling)
        self._patch(execute, "execute_with_cancellation", telling)
        self._patch(session.BaseSession, "run", telling)

    def _patch(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = vars(owner)[name]
        patched = make(original)
        setattr(owner, name, patched)
        self._patches.append((owner, name, original, patched))

    def _running(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(own: Any, *args: Any, **kwargs: Any) -> Any:
            self._capture()  # a run counts as an event, or a program of runs alone would never be looked at
            versions = self._runs.setdefault(own.graph, [])
            versions.append(own.graph.version)
            return original(own, *args, **kwargs)

        return run

    def _taping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(tape: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(tape, *args, **kwargs)
            known = self._tapes.setdefault(self._capture(), [])
            if len(known) > 64:
                known[:] = [one for one in known if one() is not None]
            known.append(weakref.ref(tape))

        return __init__

    def _tracing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create(*args: Any, **kwargs: Any) -> Any:
            options = kwargs.get("tracing_options", args[-1] if args else None)
            key = str(getattr(options, "name", "")), self._capture()
            self._traced[key] = self._traced.get(key, 0) + 1
            return original(*args, **kwargs)

        return create

    def crowds(self, least: int) -> list[Crowd]:
        """Tensors born at one place; operations that each run adds; traces of one function; tapes that are kept."""
        crowds = self.buffers()
        kept: dict[str, list[Any]] = {}
        for stack, tapes in list(self._tapes.items()):
            kept.setdefault(stacks.plain(stack), []).extend(tape for one in tapes if (tape := one()) is not None)
        crowds.extend(Crowd("tensorflow", "tapes", place, len(tapes), members=tapes) for place, tapes in kept.items())
        traced: dict[tuple[str, str], int] = {}
        for (name, stack), count in list(self._traced.items()):
            key = name, stacks.plain(stack)
            traced[key] = traced.get(key, 0) + count
        crowds.extend(Crowd("tensorflow", "traces", stack, count, name=name) for (name, stack), count in traced.items())
        for graph, versions in list(self._runs.items()):
            grown = sum(after > before for before, after in pairwise(versions))
            if grown >= least and versions[-1] > versions[-2]:
                crowds.append(Crowd("tensorflow", "operations", _latest(graph, versions[-2]), grown))
        return [crowd for crowd in crowds if crowd.count >= least and crowd.stack]

    def buffers(self) -> list[Crowd]:
        """Tensors born at one place."""
        found: dict[str, list[Any]] = {}
        for number, step, stack, tensor in self._source.living():
            if stack:
                found.setdefault(stacks.plain(stack), []).append((number, step, tensor))
        return [_crowd(stack, sorted(members, key=lambda one: one[:2])) for stack, members in found.items()]

    def expects_steps(self) -> bool:
        """Nobody knows before."""
        return False

    def members(self, crowd: Crowd) -> Sequence[Any]:
        """They are known."""
        return crowd.members

    def held(self, crowd: Crowd, members: Sequence[Any]) -> tuple[list[Any], list[Buffer]]:
        """The tensors or tapes themselves."""
        things = list(members)
        return things, [b for thing in things for b in (ADAPTER.buffers(thing) if crowd.what == "buffers" else ())]

    def facts(self, handle: Any) -> dict[str, Any]:
        """What decides about the fault."""
        if isinstance(handle, backprop.GradientTape):
            return {"persistent": bool(getattr(handle, "_persistent", False))}
        info = ADAPTER.info(handle)
        return {"shape": list(info.shape), "dtype": info.dtype, "bytes": info.nbytes, "whole": info.nbytes}


def _crowd(place: str, members: list[tuple[int, int, Any]]) -> Crowd:
    tensors = [tensor for *_, tensor in members]
    nbytes = sum(ADAPTER.info(tensor).nbytes for tensor in tensors)
    return Crowd("tensorflow", "buffers", place, len(tensors), nbytes, len({step for _, step, _ in members}), members=tensors)  # fmt: skip


def _latest(graph: Any, version: int) -> str:
    """The user's lines that added to a graph since it had this version, of those the one that added first."""
    for operation in graph.get_operations()[version:]:
        frames = list(operation.traceback or ())
        users = [frame for frame in reversed(frames) if sites.is_user(frame.filename)]
        if users:
            return "\n".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in users)
    return ""


def _said(error: object) -> str:
    """TensorFlow's own words, without the name that it gave to the operation."""
    first = str(error).partition("\n")[0]
    return "TensorFlow: " + first.rpartition("}} ")[2][:200]
