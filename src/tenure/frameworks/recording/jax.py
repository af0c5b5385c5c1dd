"""What happens to JAX's arrays.

Every array that comes to be is seen, whatever made it, with the place in the user's code and the outermost compiled
function (`jax.jit`, or the one that JAX runs for an operation) that gave it. What such a call takes counts as a use.
An end is the last reference, `delete`, or a donation; of a donation that was offered and did not happen, though there was
a result for it, `on_refused` is told. Buffers inside a compiled computation are the compiler's: they
have no Python object, and are not seen. Neither is what reads an array on the host (`float(x)`, `numpy.asarray(x)`).
Two arrays of the same bytes, as `jax.device_put` onto the same device gives, count once, until the last of them ends.

Steps: a compiled call that takes what the same call at the same place gave before is a turn of a loop that carries
state, as training does. The loop that carries the most bytes is the clock; a step is done when its call returns.
Several calls in a turn do not count several times: a turn is over when something goes around once more, not when a
place is passed again. A loop takes over from a smaller one without a step of its own, and from a larger one that
has stopped.

Without the native part only arrays that live when somebody looks, ten times a second, are seen; no uses, no steps.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax

from tenure import heap, sites, stacks
from tenure.frameworks import jax as adapter
from tenure.frameworks.base import Sink, Source
from tenure.frameworks.jax import ADAPTER, distinct, how_deleted
from tenure.frameworks.recording import arrays
from tenure.frameworks.recording.arrays import FIRST_JAX, Arrays
from tenure.frameworks.recording.columns import CAUSES
from tenure.frameworks.recording.jax_programs import note_temporaries

Array: Any = jax._src.array.ArrayImpl
Function: Any = type(jax.jit(len))  # which compiles nothing
_extension: Any = sys.modules[Function.__module__]  # JAX's extension module, which had other names

_KINDS = ("input",)


def source() -> Source:
    """The recorder: native if it can be built, else one that looks now and then."""
    core = arrays.core("jax")
    return Looking() if core is None else Jax(core)


class Turns:
    """Which loop's turns are the steps; see above."""

    def __init__(self) -> None:
        self._turns: dict[int, int] = {}
        self._since: dict[int, int] = {}  # turns of each loop since the clock's last
        self._clock = 0
        self._bytes = 0

    def turned(self, place: int, nbytes: int, turn: int) -> tuple[int, bool]:
        """A loop begins a turn. How many steps were done before without being noticed, and whether this is one."""
        if turn <= self._turns.get(place, 0):
            return 0, False
        self._turns[place] = turn
        since = self._since[place] = self._since.get(place, 0) + 1
        if place == self._clock:
            self._since.clear()
            self._bytes = nbytes
            return 0, True
        first = not self._clock
        if not first and nbytes <= self._bytes and since < 3:
            return 0, False
        larger = nbytes > self._bytes
        self._clock, self._bytes = place, nbytes
        self._since.clear()
        if first or not larger:
            # Its earlier turns passed unnoticed: of the first loop one, of one that follows another those that it
            # took to be sure. The last turn of the old loop has told of one of them.
            return (1 if first else since), True
        return 0, False


class Jax(Arrays):
    """JAX's recorder."""

    name = "jax"

    def __init__(self, core: Any) -> None:
        super().__init__(core, _KINDS)
        self._functions: weakref.WeakSet[Any] = weakref.WeakSet()
        self._turns = Turns()
        self.on_refused: Callable[[str, int, list[Any]], None] | None = None  # function, stack of the call, arrays

    def start(self, sink: Sink) -> None:
        """Stand in the allocation of arrays and in the calls of compiled functions."""
        self.begin(sink)
        self._turns = Turns()
        self.core.start(
            Array, stacks.core()._capture, self._describe, self.ops.number, self.trouble, FIRST_JAX,
            _leaves, self._turned, self.stepped, _offered, self._refused, _readers(),
        )  # fmt: skip
        adapter.unrecorded = self.core.unseen
        # First those on several devices, so that their parts are known as such.
        for array in sorted(ADAPTER.live(), key=lambda array: len(array.sharding.device_set) == 1):
            self.old.append(_text(array))
            self.core.adopt(array, -len(self.old))
        for function in heap.instances({Function}):
            self._enrol(function)
        self._pjit = _extension.pjit
        self._patched = _after(self._pjit, self._enrol)
        _extension.pjit = self._patched
        self._delete = Array.delete
        Array.delete = self._deleting = _deleting(self._delete, self.core)

    def _enrol(self, function: Any) -> None:
        if self.core.enrol(function):
            self._functions.add(function)

    def _refused(self, function: Any, stack: int, offered: list[Any], result: Any) -> None:
        """Some of these were not reused. That is no wonder where no result is like them: then JAX has warned of it."""
        tell = self.on_refused
        if tell is None:
            return
        room = Counter(_like(leaf) for leaf in _leaves(result) if type(leaf) is Array)
        room.subtract(_like(array) for array in offered if array.is_deleted())
        kept = []
        for array in offered:
            if not array.is_deleted() and room[_like(array)] > 0:
                room[_like(array)] -= 1
                kept.append(array)
        if kept:
            tell(getattr(function, "__name__", ""), stack, kept)

    def _describe(self, aval: Any, sharding: Any) -> tuple[int, int, bool]:
        """The number of what such an array is, its bytes, and whether it is on several devices."""
        return self.what(*_what(aval, sharding)), _measure(aval, sharding), len(sharding.device_set) > 1

    def _turned(self, place: int, nbytes: int, turn: int) -> bool:
        missed, done = self._turns.turned(place, nbytes, turn)
        for _ in range(missed):
            self.stepped()
        return done

    def drain(self) -> Any:
        """What was seen since the last time."""
        for array in self.core.gone():
            self.core.end(array, _cause(_how_deleted(array)))
        return super().drain()

    def stop(self) -> None:
        """Leave every slot and name as it was."""
        self.core.stop()
        adapter.unrecorded = None
        note_temporaries(self.sink)
        for function in list(self._functions):
            self.core.release(function)
        self._functions.clear()
        if _extension.pjit is self._patched:
            _extension.pjit = self._pjit
        if Array.delete is self._deleting:
            Array.delete = self._delete
        self.sink = None


class Looking:
    """JAX's recorder where nothing can be compiled."""

    name = "jax"
    native = False
    tells_steps = False

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}
        self.sink: Sink | None = None

    def start(self, sink: Sink) -> None:
        """There is nothing to hook."""
        self.sink = sink
        self.drain()

    def drain(self) -> None:
        """Look which arrays there are."""
        sink = self.sink
        if sink is None:
            return
        for key, (ref, number) in self._known.copy().items():
            array = ref()
            if array is not None and array.is_deleted():
                sink.ended(number, _how_deleted(array))
                self._known.pop(key, None)
        # The known ones first: of an array and what JAX made of it, the first is kept.
        for array in distinct(sorted(ADAPTER.live(), key=lambda array: id(array) not in self._known)):
            key = id(array)
            if key in self._known or array.is_deleted():
                continue
            shape, dtype, device = _what(array.aval, array.sharding)
            del shape
            number = sink.born(
                "jax", _measure(array.aval, array.sharding), device, "", array.shape, dtype, _text(array)
            )
            self._known[key] = weakref.ref(array, self._forgetting(key, number)), number

    def _forgetting(self, key: int, number: int) -> Callable[[Any], None]:
        def forget(ref: Any) -> None:
            if self._known.get(key, (None,))[0] is ref:
                del self._known[key]
                if self.sink is not None:
                    self.sink.ended(number)

        return forget

    def at_step(self, number: int, *, tell: bool) -> None:
        """A good moment to look."""
        self.drain()

    def in_scope(self, name: str) -> None:
        """The sink knows."""

    def ending(self, cause: str) -> None:
        """An end is seen too late to know its cause."""

    def forked(self, sink: Sink) -> None:
        """Arrays of the parent are not this process's."""
        self._known.clear()
        self.sink = sink

    def stop(self) -> None:
        """Look no more."""
        self.drain()
        note_temporaries(self.sink)
        self.sink = None
        self._known.clear()


def _after(original: Callable[..., Any], tell: Callable[[Any], None]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        tell(made)
        return made

    return make


def _deleting(original: Callable[..., Any], core: Any) -> Callable[..., Any]:
    def delete(self: Any) -> Any:
        if not self.is_deleted():
            core.end(
                self, _cause("delete")
            )  # before: JAX deletes aliases first, and another thread could take it for donated
        return original(self)

    return delete


def _leaves(value: Any) -> list[Any]:
    """The arrays in a container that is not Python's own; typed keys are arrays of their own class."""
    return [getattr(leaf, "_base_array", leaf) for leaf in jax.tree_util.tree_leaves(value)]


def _offered(function: Any) -> tuple[tuple[int, ...], frozenset[str]]:
    """The arguments that a compiled function may reuse: their places, and their names."""
    how = getattr(function, "_jit_info", None) or _enclosed(function, "jit_info")
    return tuple(getattr(how, "donate_argnums", None) or ()), frozenset(getattr(how, "donate_argnames", None) or ())


def _enclosed(function: Any, name: str) -> Any:
    """What older versions of JAX keep only in the closure that compiles the function."""
    compiling = inspect.unwrap(getattr(function, "_cache_miss", None) or function)
    code = getattr(compiling, "__code__", None)
    if code is None or name not in code.co_freevars:
        return None
    return compiling.__closure__[code.co_freevars.index(name)].cell_contents


def _like(array: Any) -> tuple[Any, ...]:
    """What of an array another must have in common to lie in its memory."""
    return array.shape, array.dtype, array.sharding


def _measure(aval: Any, sharding: Any) -> int:
    """The bytes of an array: of all its parts on the devices of this process."""
    devices = sharding.addressable_devices
    shape = aval.shape if len(devices) == 1 else sharding.shard_shape(aval.shape)
    count = len(devices)
    for size in shape:
        count *= size
    return int(count * aval.dtype.itemsize)


def _what(aval: Any, sharding: Any) -> tuple[str, str, str]:
    devices = sorted(map(str, sharding.addressable_devices))
    return str(list(aval.shape)), str(aval.dtype), ", ".join(devices)


def _readers() -> tuple[Any, ...]:
    """The code in JAX that reads an array on the host, as far as this version has it."""
    found = (vars(Array).get(name) for name in ("_value", "copy_to_host_async"))
    functions = (inspect.unwrap(getattr(one, "fget", one)) for one in found if one is not None)
    return tuple(function.__code__ for function in functions if hasattr(function, "__code__"))


def _cause(name: str) -> int:
    return CAUSES.index(name) + 1


def _text(array: Any) -> str:
    """Where JAX says that an array was made, as `stacks.text` tells it."""
    traceback = getattr(array, "traceback", None)
    frames = list(traceback.frames) if traceback is not None else []
    users = [frame for frame in frames if sites.is_user(frame.file_name)]
    return "\n".join(f"{frame.file_name}:{frame.line_num} in {frame.function_name}" for frame in users or frames)


def _how_deleted(array: Any) -> str:
    return {"donated": "donate", "deleted": "delete"}[how_deleted(array)]
