"""The JAX adapter. `delete` ends an array; whether its bytes went depends on host views that JAX does not report."""

from __future__ import annotations

import contextvars
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import jax

from tenure import errors, references, sites
from tenure.frameworks import ended, host
from tenure.frameworks import jax_owners as owners
from tenure.frameworks.base import Buffer, Inner
from tenure.model import Site, State, TensorInfo

Array: Any = jax._src.array.ArrayImpl
unrecorded: Callable[..., Any] | None = None  # calls a function while the recorder does not see this thread's arrays
_CALLBACKS = os.path.join("jax", "_src", "callback.py")  # noqa: PTH118 - the end of a name, not a path


class Jax:
    """JAX's part of the Framework protocol."""

    name = "jax"
    passes_errors = False

    def owns(self, kind: type) -> bool:
        """Concrete arrays, typed PRNG keys, and tracers."""
        return issubclass(kind, (Array, jax.core.Tracer)) or _is_key(kind)

    def info(self, tensor: Any) -> TensorInfo:
        """The description; JAX itself remembers where an array was born."""
        buried = ended.find(tensor)
        if buried is not None:
            return buried
        shape = tuple(n if isinstance(n, int) else None for n in tensor.shape)
        dtype = str(tensor.dtype)
        if isinstance(tensor, jax.core.Tracer):
            return TensorInfo("jax", shape, dtype, "trace", 0, _tracer_state(tensor), kind="tracer")
        array = _base(tensor)
        state: State = "live"
        cause = ""
        if array.is_deleted():
            state = how_deleted(array)
            cause = {"donated": "donate"}.get(state, "delete")
        return TensorInfo(
            "jax", shape, dtype, _device(array), int(array.nbytes), state, birth(array), None, cause, kind="array"
        )

    def buffers(self, tensor: Any) -> list[Buffer]:
        """One buffer per shard, identified by its address, or by its array until that is computed."""
        if isinstance(tensor, jax.core.Tracer) or ended.find(tensor) is not None or _base(tensor).is_deleted():
            return []
        found: list[Buffer] = []
        for index, part in enumerate(_parts(tensor)):
            nbytes = int(part.nbytes)
            start = _address(part)
            device = _device(part)
            place = host.span(device, start, nbytes) if nbytes and start is not None else None
            # A deleted array's bytes are gone unless somebody made a view of them, which JAX does not tell.
            key = ("jax", device, (id(_base(tensor)), index) if start is None else start, nbytes)
            found.append(Buffer(key, nbytes, device, lambda: True, place, shared=True))
        return found

    def refusal(self, tensor: Any) -> str:
        """Tracers belong to their trace."""
        if isinstance(tensor, jax.core.Tracer):
            return "it is a tracer: it has no bytes, and the trace that made it owns it"
        return ""

    def sole(self, tensors: list[Any]) -> dict[object, bool | None]:
        """An array's bytes go with it unless somebody else reads them."""
        buffers = [buffer for tensor in tensors for buffer in self.buffers(tensor)]
        placed = [buffer for buffer in buffers if buffer.span is not None]
        readers = host.readers([buffer.span for buffer in placed if buffer.span is not None])
        strangers = {
            buffer.key: [reader for reader in found if type(reader) is not Array]  # two arrays never share bytes
            for buffer, found in zip(placed, readers, strict=True)
        }
        return {buffer.key: not strangers.get(buffer.key) for buffer in buffers}

    def end(self, tensors: list[Any], notice: Callable[[Any], TensorInfo]) -> list[tuple[Any, str]]:
        """Delete the arrays; from then on JAX's own check speaks with our words.

        To delete an array that shares its buffer (a part of another) would delete both, and one that a DLPack
        export refers to aborts the process: those refuse Python's access, and their bytes stay.
        """
        _teach()
        arrays = [_base(tensor) for tensor in tensors]
        for index, tensor in enumerate(tensors):
            info = notice(tensor)
            ended.bury(tensor, info)
            if arrays[index] is not tensor:
                ended.bury(arrays[index], info)
                _teach_to_tell(type(tensor))
        del tensor
        spared = self._spared(arrays)
        for array in arrays:
            if id(array) not in spared and not array.is_deleted():
                array.delete()
        return []

    def _spared(self, arrays: list[Any]) -> set[int]:
        """The ids of those that JAX could not delete alone."""
        kept = references.unexplained(arrays, [0] * len(arrays))
        mine = set(map(id, arrays))
        starts = [_starts(array) for array in arrays]
        asked = set().union(*starts)
        aliases = [array for array in _live() if id(array) not in mine and not asked.isdisjoint(_starts(array))]
        if not aliases:
            return kept
        # JAX itself makes aliases, for printing and exports. Only those that the program refers to count.
        own = _referred(own_references(arrays))
        seen = zip(references.from_frames(aliases), references.from_heap(aliases), strict=True)
        taken: set[Any] = set()
        for alias, (framed, heap) in zip(aliases, seen, strict=True):
            if framed + heap > own[id(alias)]:
                taken |= _starts(alias)
        return kept | {
            id(array) for array, own_starts in zip(arrays, starts, strict=True) if not taken.isdisjoint(own_starts)
        }

    def prepare(self, hidden: Callable[[Any], AbstractContextManager[None]]) -> None:
        """Nothing: weak references do not matter to it."""

    def births(self) -> Iterable[tuple[type, None]]:
        """Concrete arrays."""
        return ((Array, None),)

    def exempt(self, tensors: list[Any]) -> set[int]:
        """Parts of other arrays, made behind the scenes; what traces, the compilation cache and variables keep."""
        if isinstance(tensors[0], jax.core.Tracer):
            return set()
        if _is_tracing():
            return set(map(id, tensors))  # under grad or vmap any array may be a residual of the trace
        return (
            self._spared(tensors) | {id(array) for array in tensors if _born_in_trace(array)} | owners.spared(tensors)
        )

    def live(self) -> Iterator[Any]:
        """JAX's own lists."""
        return iter(_live())

    def inner(self, tensor: Any) -> list[Inner]:
        """Nothing that JAX would tell."""
        return []


def _live() -> list[Any]:
    bridge = getattr(jax._src, "xla_bridge", None)
    begun = getattr(bridge, "backends_are_initialized", None)
    if begun is not None and not begun():
        return []  # to ask would begin them, which on a GPU takes memory
    # Without a name JAX lists one platform's arrays only: where there is a GPU, none of the host's.
    backends = getattr(bridge, "backends", None)
    return [array for name in backends() for array in jax.live_arrays(name)] if backends else jax.live_arrays()


def birth(array: Any) -> Site | None:
    """Where JAX says the array was made: the innermost frame that is the user's."""
    traceback = getattr(array, "traceback", None)
    for frame in traceback.frames if traceback is not None else ():
        if sites.is_user(frame.file_name):
            return Site(frame.file_name, frame.line_num, frame.function_name)
    return None


def distinct(arrays: Iterable[Any]) -> list[Any]:
    """Leave out what JAX itself made of another array: its parts, and its bytes again. Both have that array's traceback."""
    groups: dict[int, list[Any]] = {}
    kept = []
    for array in arrays:
        traceback = getattr(array, "traceback", None)
        if traceback is None:
            kept.append(array)
        else:
            groups.setdefault(id(traceback), []).append(array)
    for group in groups.values():
        wholes = [array for array in group if len(array.sharding.device_set) > 1]
        if len(group) == 1 or len(group) == len(wholes):
            kept += group
        elif wholes:
            kept += wholes
        else:  # several results of one call, or one again; their addresses tell
            kept += {_address(array) or id(array): array for array in group[::-1]}.values()
    return kept


def _is_tracing() -> bool:
    clean = getattr(jax._src.core, "trace_state_clean", None)
    return clean is not None and not clean()


def _born_in_trace(array: Any) -> bool:
    traceback = getattr(array, "traceback", None)
    frames = traceback.frames if traceback is not None else ()
    return any(frame.function_name.split(".")[-1].startswith("trace_to_jaxpr") for frame in frames)


def _is_key(kind: type) -> bool:
    return kind.__name__ == "PRNGKeyArray" and kind.__module__.startswith("jax.")


def _base(tensor: Any) -> Any:
    """The array under a typed PRNG key; any other array is its own."""
    return getattr(tensor, "_base_array", tensor)


def _device(array: Any) -> str:
    return ", ".join(sorted(str(device) for device in array.sharding.device_set))


def _address(part: Any) -> int | None:
    """The address of the bytes, or None while they are computed.

    JAX would wait for them without releasing the interpreter lock, and what computes them may need that for a callback.
    """
    if part.is_deleted() or not part.is_ready():
        return None
    try:
        return int(_apart(part.unsafe_buffer_pointer))
    except jax.errors.JaxRuntimeError:  # its parts are still being made: a leak check may run meanwhile
        return None


def _starts(array: Any) -> set[Any]:
    """What tells buffers apart: the device and the address of each part; nothing for a deleted array."""
    array = _base(array)
    if array.is_deleted():
        return set()
    if not array.is_ready() and not _in_callback():
        array.block_until_ready()  # this does release the interpreter lock
    return {(_device(part), _address(part) or id(part)) for part in _parts(array)}


def _in_callback() -> bool:
    """Whether this thread runs a callback of a computation, which must not wait for that."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename.endswith(_CALLBACKS):
            return True
    return False


def _parts(tensor: Any) -> list[Any]:
    """The arrays of one device each that an array consists of; none for a tracer or a deleted array.

    They are not asked of `addressable_shards`: JAX keeps its result in the array, where it refers to the same bytes. It
    does so for several devices, and before 0.10.2 for one device, too. And it fails for an array that tenure released.
    """
    if isinstance(tensor, jax.core.Tracer):
        return []
    array = _base(tensor)
    sharding = array.sharding
    if len(sharding.device_set) == 1 and sharding.is_fully_addressable:
        return [array]
    return list(_apart(getattr, array, "_arrays") or ())  # JAX makes these once; they are deleted with the array


def _apart(ask: Callable[..., Any], *args: Any) -> Any:
    """Ask JAX for what it may make an alias or parts for: outside of all scopes and recordings."""
    through = unrecorded
    return contextvars.Context().run(ask, *args) if through is None else contextvars.Context().run(through, ask, *args)


def own_references(arrays: list[Any]) -> list[Any]:
    """The objects through which these arrays refer to their own parts: a list of them (JAX 0.11), and cached shards.

    They do not retain anything, unless the program has a reference to one; then it is not returned.
    """
    found = []
    for array in map(_base, arrays):
        if isinstance(array, jax.core.Tracer) or array.is_deleted():
            continue
        cached = vars(array).get("addressable_shards")
        parts = _apart(getattr, array, "_arrays") if len(array.sharding.device_set) > 1 else None
        if parts is not None and parts is array._arrays and references.counts([parts]) == [2]:
            found.append(parts)  # the array's reference and ours
        if cached is not None and references.counts([cached]) == [2]:
            shards = list(cached)
            counts = references.counts(shards)
            found += [shard for shard, count in zip(shards, counts, strict=True) if count == 1]
    return found


def _referred(own: list[Any]) -> Counter[int]:
    """By id, how often these objects refer to a part."""
    return Counter(id(part) for one in own for part in (one if isinstance(one, list) else [one.data]))


def how_deleted(array: Any) -> State:
    """Whether a deleted array was donated or deleted, as far as this JAX tells."""
    try:
        array.on_device_size_in_bytes()  # JAX keeps a donated array's description; anything else may wait for the call
    except (RuntimeError, ValueError):
        return "deleted"
    return "donated"


def _tracer_state(tracer: Any) -> State:
    valid = getattr(getattr(tracer, "_trace", None), "is_valid", None)
    return "symbolic" if valid is None or valid() else "out-of-scope"


def _teach() -> None:
    """Let JAX's check for deleted arrays, and their repr, tell what tenure knows about those that it ended."""
    check = Array._check_if_deleted
    if hasattr(check, "tenure"):
        return

    def _check_if_deleted(self: Any) -> None:
        if ended.find(self) is not None:
            raise ended.complain(self, "", sites.here())
        check(self)

    _check_if_deleted.tenure = True  # type: ignore[attr-defined]
    Array._check_if_deleted = _check_if_deleted
    _teach_to_tell(Array)
    Array.__dlpack_device__ = _checked(Array.__dlpack_device__)
    layout = getattr(Array, "_pjrt_layout", None)
    if layout is not None:  # jaxlib 0.10.2 reads through a null pointer there
        Array._pjrt_layout = property(_checked(layout.__get__))


def _teach_to_tell(kind: Any) -> None:
    for name in ("__repr__", "__str__", "__format__"):
        if not hasattr(getattr(kind, name), "tenure"):
            setattr(kind, name, _telling(getattr(kind, name)))


def _checked(original: Callable[..., Any]) -> Callable[..., Any]:
    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._check_if_deleted()  # JAX forgets to
        return original(self, *args, **kwargs)

    return ask


def _telling(original: Callable[..., str]) -> Callable[..., str]:
    def show(self: Any, *args: Any) -> str:
        info = ended.find(self)
        return original(self, *args) if info is None else errors.epitaph(info)

    show.tenure = True  # type: ignore[attr-defined]
    return show


ADAPTER = Jax()
