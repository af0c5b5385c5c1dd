"""What grows in JAX: arrays by birthplace, and programs that are compiled again and again at one place."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import monitoring

from tenure import sites, stacks
from tenure.frameworks.base import Buffer, Crowd, Growing, Source
from tenure.frameworks.jax import ADAPTER, distinct
from tenure.model import size

# Functions that JAX itself compiles when they are called outside of any other: not the user's to pad or to jit.
_OWN = (jax.lax, jax.numpy, jax.nn, jax.random, jax.scipy, jax)
# Of those, the loops and branches whose body is a function of the user's: compiled again for each new one.
_CONTROL = ("scan", "while", "cond")
_Error: Any = jax.errors.JaxRuntimeError
_EXHAUSTED = re.compile(r"RESOURCE_EXHAUSTED(?:.*?allocat(?:e|ing) ([\d.]+) ?(bytes|[KMGT]iB))?", re.DOTALL)
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_UNNAMED = "this version of JAX does not report which functions it compiles, so functions compiled again are not found"
_COMPILED = "/jax/core/compile/backend_compile_duration"


def grower(source: Source) -> Growing:
    """For the recorder that watches JAX."""
    return Jax(source)


class Jax:
    """Looks at JAX; see `Growing`."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._original: Any = None
        self._patched: Any = None
        self._is_own = True
        self._is_unnamed = False
        self._capture = stacks.capturer()
        self._compiled: dict[tuple[str, int], int] = {}
        monitoring.register_event_duration_secs_listener(self._hear)

    def on_failure(self, tell: Callable[[str, int | None], None]) -> None:
        """Whenever JAX makes its error for want of memory, which on a GPU may be long after the call that failed."""
        original = self._original = (
            _Error.__init__
        )  # before 0.9 the class has none of its own, but that of RuntimeError
        self._is_own = "__init__" in vars(_Error)

        def __init__(error: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(error, *args, **kwargs)
            found = _EXHAUSTED.search(str(args[0]) if args else "")
            if found is not None:
                wanted = int(float(found[1]) * _UNITS[found[2]]) if found[1] else None
                tell(f"JAX could not allocate {size(wanted) if wanted else 'memory'} on its device", wanted)

        self._patched = _Error.__init__ = __init__

    def on_refused(self, tell: Callable[[Crowd, str], None]) -> None:
        """Have this told of arrays that a call was to reuse, and did not: where and by what, and where they were born."""

        def hear(name: str, stack: int, arrays: list[Any]) -> None:
            nbytes = sum(array.nbytes for array in arrays)
            largest = sorted(arrays, key=lambda array: -array.nbytes)
            crowd = Crowd("jax", "donations", stacks.plain(stack), len(arrays), nbytes, name=name, members=largest)
            tell(crowd, _born(largest[0]))

        if self._source.native:
            self._source.on_refused = hear

    def stop(self) -> None:
        """Listen no more."""
        if self._source.native:
            self._source.on_refused = None
        if self._patched is not None and _Error.__init__ is self._patched:
            if self._is_own:
                _Error.__init__ = self._original
            else:
                del _Error.__init__
        remove = getattr(monitoring, "unregister_event_duration_listener", None)
        if remove is None:
            from jax._src import monitoring as inner

            remove = getattr(inner, "_unregister_event_duration_listener_by_callback", None)
        if remove is not None:
            remove(self._hear)
        self._compiled.clear()

    def _hear(self, event: str, seconds: float, **facts: Any) -> None:
        name = str(facts.get("fun_name", "")).removeprefix("jit(").removesuffix(")")
        # JAX 0.4 does not pass the name: then it could be a function of JAX's own.
        self._is_unnamed = self._is_unnamed or (event == _COMPILED and not name)
        is_own = name not in _CONTROL and any(hasattr(module, name) for module in _OWN)
        if event == _COMPILED and name and not is_own:
            key = name, self._capture()
            self._compiled[key] = self._compiled.get(key, 0) + 1

    def crowds(self, least: int) -> list[Crowd]:
        """Arrays born at one place; programs of one function compiled at one place."""
        if self._is_unnamed and self._source.sink is not None:
            self._source.sink.partly(("leaks",), _UNNAMED)
        compiled: dict[tuple[str, str], int] = {}
        for (name, stack), count in self._compiled.copy().items():
            key = name, stacks.plain(stack)
            compiled[key] = compiled.get(key, 0) + count
        return [
            *(crowd for crowd in self.buffers() if crowd.count >= least),
            *(
                Crowd("jax", "traces", stack, count, name=name)
                for (name, stack), count in compiled.items()
                if count >= least
            ),
        ]

    def buffers(self) -> list[Crowd]:
        """Arrays born at one place, on whatever platform."""
        found: dict[str, list[Any]] = {}
        for array in distinct(ADAPTER.live()):
            found.setdefault(_born(array), []).append(array)
        return [
            Crowd("jax", "buffers", stack, len(arrays), sum(array.nbytes for array in arrays), members=arrays[::-1])
            for stack, arrays in found.items()
            if stack
        ]

    def expects_steps(self) -> bool:
        """Nobody knows before."""
        return False

    def members(self, crowd: Crowd) -> Sequence[Any]:
        """They are known."""
        return crowd.members

    def held(self, crowd: Crowd, members: Sequence[Any]) -> tuple[list[Any], list[Buffer]]:
        """The arrays themselves."""
        return list(members), [buffer for array in members for buffer in ADAPTER.buffers(array)]

    def facts(self, handle: Any) -> dict[str, Any]:
        """What decides about the fault."""
        return {"shape": list(handle.shape), "dtype": str(handle.dtype), "bytes": handle.nbytes, "whole": handle.nbytes}


def _born(array: Any) -> str:
    traceback = getattr(array, "traceback", None)
    return _text(traceback) if traceback is not None else ""


@functools.lru_cache(4096)
def _text(traceback: Any) -> str:
    users = (frame for frame in traceback.frames if sites.is_user(frame.file_name))
    return "\n".join(dict.fromkeys(f"{frame.file_name}:{frame.line_num} in {frame.function_name}" for frame in users))
