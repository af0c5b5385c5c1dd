"""What grows in TensorFlow: tensors by birthplace, graphs to which each run adds, functions traced again, kept tapes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from tensorflow.python.client import session
from tensorflow.python.eager import backprop
from tensorflow.python.eager.polymorphic_function import transform
from tensorflow.python.framework import errors

from tenure import sites, stacks
from tenure.frameworks.base import Buffer, Crowd, Growing, Source
from tenure.frameworks.growing.before import Before
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
        self._patch(session.BaseSession, "run", lambda run: Before(run, self._running))
        self._patch(backprop.GradientTape, "__init__", lambda init: Before(init, self._taping))
        transform.CONCRETE_FUNCTION_CALLBACKS.append(self._traced_one)

    def stop(self) -> None:
        """Leave everything as it was."""
        for owner, name, original, patched in reversed(self._patches):
            if vars(owner).get(name) is patched:
                setattr(owner, name, original)
        self._patches.clear()
        if self._traced_one in transform.CONCRETE_FUNCTION_CALLBACKS:
            transform.CONCRETE_FUNCTION_CALLBACKS.remove(self._traced_one)
        self._traced.clear()

    def on_failure(self, tell: Callable[[str, int | None], None]) -> None:
        """Whenever TensorFlow makes its error for want of memory, of an operation or of a graph's run."""

        def making(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(error: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
                original(error, *args, **kwargs)
                # A session makes a second one of the first, with the operation's name; users may make their own.
                again = isinstance(sys.exception(), errors.ResourceExhaustedError)
                if not again and not sites.is_user(sys._getframe(1).f_code.co_filename):
                    tell(_said(error), None)

            return __init__

        self._patch(errors.ResourceExhaustedError, "__init__", making)

    def _patch(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = vars(owner)[name]
        patched = make(original)
        setattr(owner, name, patched)
        self._patches.append((owner, name, original, patched))

    def _running(self, own: Any) -> None:
        self._capture()  # a run counts as an event, or a program of runs alone would never be looked at
        self._runs.setdefault(own.graph, []).append(own.graph.version)

    def _taping(self, tape: Any) -> None:
        known = self._tapes.setdefault(self._capture(), [])
        if len(known) > 64:
            known[:] = [one for one in known if one() is not None]
        known.append(weakref.ref(tape))

    def _traced_one(self, function: Any) -> None:
        key = str(function.graph.name), self._capture()
        self._traced[key] = self._traced.get(key, 0) + 1

    def crowds(self, least: int) -> list[Crowd]:
        """Tensors born at one place; operations that each run adds; traces of one function; tapes that are kept."""
        crowds = self.buffers()
        kept: dict[str, list[Any]] = {}
        for stack, tapes in self._tapes.copy().items():
            kept.setdefault(stacks.plain(stack), []).extend(tape for one in tapes if (tape := one()) is not None)
        crowds.extend(Crowd("tensorflow", "tapes", place, len(tapes), members=tapes) for place, tapes in kept.items())
        traced: dict[tuple[str, str], int] = {}
        for (name, stack), count in self._traced.copy().items():
            key = name, stacks.plain(stack)
            traced[key] = traced.get(key, 0) + count
        crowds.extend(Crowd("tensorflow", "traces", stack, count, name=name) for (name, stack), count in traced.items())
        for ref in self._runs.keyrefs():
            graph = ref()
            versions = None if graph is None else self._runs.get(graph)
            if versions is None:
                continue
            grown = [at for at, (before, after) in enumerate(pairwise(versions)) if after > before]
            if len(grown) >= least and _goes_on(grown, len(versions) - 1):
                crowds.append(Crowd("tensorflow", "operations", _latest(graph, versions[grown[-1]]), len(grown)))
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


def _goes_on(grown: Sequence[int], runs: int) -> bool:
    """Return whether a graph that these runs added to still grows: in the last one, or as regularly as up to the last ones.

    A snapshot or an evaluation now and then adds to it in every tenth run, for example.
    """
    widest = max(after - before for before, after in pairwise(grown[len(grown) // 2 :])) if len(grown) > 3 else 1
    return runs - 1 - grown[-1] <= widest and grown[len(grown) // 2] >= runs // 4


def _latest(graph: Any, version: int) -> str:
    """The user's lines that added to a graph since it had this version, of those the one that added first."""
    for operation in graph.get_operations()[version:]:
        frames = list(operation.traceback or ())
        users = [frame for frame in reversed(frames) if sites.is_user(frame.filename)]
        if users:
            return "\n".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in users)
    return ""


def _said(error: object) -> str:
    """TensorFlow's own words, without the name that it or the user gave to the operation."""
    first = str(error).partition("\n")[0].partition(" name: ")[0]
    return "TensorFlow: " + first.rpartition("}} ")[2][:200]
