"""The PyTorch adapter: which bytes a tensor has, how its handle ends, and what outlives a scope."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parameter import is_lazy

from tenure import heap, references
from tenure.errors import epitaph
from tenure.frameworks import ended, host
from tenure.frameworks.base import Buffer, Inner
from tenure.frameworks.torch import counts, owners
from tenure.frameworks.torch.sealed import EndedTensor, divorce, seal, teach, unseal
from tenure.frameworks.torch.uncompiled import uncompiled
from tenure.model import State, TensorInfo

F = TypeVar("F", bound=Callable[..., Any])
# The subclasses of tensors when `births` was last asked, and the user's among them. They are kept, so that their number
# tells whether there are others.
_LISTED: list[type] = []
_USERS: list[type] = []
_storage, _layout = torch._C.TensorBase.untyped_storage, torch._C.TensorBase.layout.__get__
_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def _past_torch_function(method: F) -> F:
    """Run a method without the user's subclasses and modes: a look at a tensor must run no code of theirs."""

    @uncompiled  # where a scope is in a compiled function; to compile is impossible past the dispatch
    @functools.wraps(method)
    def quiet(*args: Any) -> Any:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return method(*args)

    return quiet  # type: ignore[return-value]


class Torch:
    """PyTorch's part of the Framework protocol."""

    name = "torch"
    passes_errors = True

    def owns(self, kind: type) -> bool:
        """Every Tensor subclass, parameters and symbolic tensors included."""
        return issubclass(kind, torch.Tensor)

    @_past_torch_function
    def info(self, tensor: torch.Tensor) -> TensorInfo:
        """The description; of an ended tensor, the one written when it ended."""
        buried = ended.find(tensor)
        if buried is not None:
            return buried
        state: State = "symbolic" if is_symbolic(tensor) else "live"
        shape = tuple(int(n) if isinstance(n, int) else None for n in _shape(tensor))
        nbytes = 0
        if state == "live" and tensor.layout == torch.strided and not tensor.is_nested and counts.has_storage(tensor):
            nbytes = tensor.numel() * tensor.element_size()
        elif state == "live":
            nbytes = sum(buffer.nbytes for buffer in self.buffers(tensor))
        kind = "parameter" if isinstance(tensor, torch.nn.Parameter) or is_lazy(tensor) else "tensor"
        return TensorInfo("torch", shape, str(tensor.dtype)[6:], str(tensor.device), nbytes, state, kind=kind)

    @_past_torch_function
    def buffers(self, tensor: torch.Tensor) -> list[Buffer]:
        """The storage behind it, or the storages of a sparse tensor's parts."""
        if isinstance(tensor, EndedTensor) or is_symbolic(tensor):
            return []
        parts = [tensor]
        if tensor.layout in _SPARSE_PARTS:
            source = tensor.detach()
            parts = [getattr(source, part)() for part in _SPARSE_PARTS[tensor.layout]]
        elif tensor.layout != torch.strided or _without_storage(tensor) or not counts.has_storage(tensor):
            return []
        return [_buffer(part) for part in parts]

    @_past_torch_function
    def refusal(self, tensor: torch.Tensor) -> str:
        """Symbolic, nested, opaque and foreign-shaped handles cannot be ended."""
        if is_lazy(tensor):
            return "it is not initialised yet: it has no bytes before the module's first call"
        if is_symbolic(tensor):
            return "it is symbolic: it has no bytes, and the trace that made it owns it"
        if tensor.is_nested:
            return "a nested tensor has no single shape to keep; release its parts (x.unbind()) instead"
        if not counts.has_storage(tensor):
            return "it has no bytes: its data belongs to a released tensor"
        if tensor.layout not in _SPARSE_PARTS and (tensor.layout != torch.strided or _without_storage(tensor)):
            return f"a {type(tensor).__name__} with layout {tensor.layout} keeps its bytes where tenure cannot reach"
        like, kind = torch.Tensor, type(tensor)
        layout = ("__basicsize__", "__dictoffset__", "__weakrefoffset__")
        same = all(getattr(kind, part) == getattr(like, part) for part in layout)
        return "" if same else f"{kind.__name__} has its own __slots__, so its handle cannot be marked as released"

    @_past_torch_function
    def sole(self, tensors: list[torch.Tensor]) -> dict[object, bool | None]:
        """Whether these handles are all there is, by torch's own reference counts."""
        tensors = [tensor for tensor in tensors if self.buffers(tensor)]
        bases = [tensor._base for tensor in tensors if tensor._is_view() and tensor._base is not None]
        views: dict[int, int] = {}  # a view refers to its base natively
        for base in bases:
            views[id(base)] = views.get(id(base), 0) + 1
        base = None
        mine: dict[object, list[bool]] = {}
        ids = set(map(id, tensors))
        for number in set(views) - ids:
            base = next(base for base in bases if id(base) == number)
            if counts.only_views_need(base, views[number]):
                mine.setdefault(_buffer(base).key, []).append(True)  # it goes with its views
                ids.add(number)
        users: dict[object, int | None] = {}
        lent: dict[object, Buffer] = {}
        for tensor in tensors:
            alone = counts.handle_users(tensor) in (1 + views.get(id(tensor), 0), None)
            for buffer in self.buffers(tensor):
                mine.setdefault(buffer.key, []).append(alone)
                users[buffer.key] = counts.storage_users(tensor) if tensor.layout == torch.strided else None
                if buffer.shared and buffer.span is not None:
                    lent[buffer.key] = buffer
        answer = {
            key: None if users[key] is None else all(alone) and users[key] == len(alone) for key, alone in mine.items()
        }
        readers = host.readers([buffer.span for buffer in lent.values() if buffer.span is not None])
        for key, found in zip(lent, readers, strict=True):
            if any(id(reader) not in ids for reader in found):
                answer[key] = False
        return answer

    def end(self, tensors: list[torch.Tensor], notice: Callable[[Any], TensorInfo]) -> list[tuple[torch.Tensor, str]]:
        """Seal every handle first, so that no new use can begin; then let go of the bytes nobody is reading.

        Who reads them through the handle itself (NumPy, an operation in another thread) has a reference to it that
        neither frames nor heap explain. Then the bytes stay until the handle's last reference goes.

        One that cannot lose its bytes now, and that a function written in Python saved for backward, stays as it was:
        torch would hand that function this very handle.
        """
        teach()
        kinds = [type(tensor) for tensor in tensors]
        for index in range(len(tensors)):
            ended.bury(tensors[index], notice(tensors[index]))
            seal(tensors[index])
        busy = references.unexplained(tensors, counts.kept_by_native(tensors))
        stuck: list[tuple[torch.Tensor, type]] = []
        for tensor, kind in zip(tensors, kinds, strict=True):
            info = ended.find(tensor)
            done = info is None or (id(tensor) not in busy and divorce(tensor, kind, epitaph(info)))
            if not done and counts.handle_users(tensor) != 1:
                stuck.append((tensor, kind))
        return self._revive(stuck) if stuck else []

    def _revive(self, stuck: list[tuple[torch.Tensor, type]]) -> list[tuple[torch.Tensor, str]]:
        from tenure.frameworks.torch import autograd

        refused: list[tuple[torch.Tensor, str]] = []
        saved = autograd.saved_by_functions([tensor for tensor, _ in stuck])
        for tensor, kind in stuck:
            if id(tensor) in saved:
                unseal(tensor, kind)
                ended.unbury(tensor)
                refused.append((tensor, f"{saved[id(tensor)]} saved this very handle for backward, and needs it there"))
        return refused

    def prepare(self, hidden: Callable[[Any], AbstractContextManager[None]]) -> None:
        """Let `torch.utils.swap_tensors`, which refuses tensors with weak references, see none of tenure's."""
        if not isinstance(getattr(torch.utils, "weakref", weakref), _Weakref):
            torch.utils.weakref = _Weakref(hidden)  # its module's own name for the module

    def births(self) -> Iterable[tuple[type, Callable[[Any], int] | None]]:
        """Plain tensors and the user's own subclasses; parameters and torch's internal classes are not claimed."""
        kinds = torch.Tensor.__subclasses__()
        plain = (torch.Tensor, counts.native_users())
        if kinds != _LISTED:
            _USERS[:] = [kind for kind in kinds if kind is not EndedTensor and not _is_of_torch(kind)]
            _LISTED[:] = kinds
        return [plain, *((each, None) for kind in _USERS for each in heap.family(kind))]

    def exempt(self, tensors: list[torch.Tensor]) -> set[int]:
        """Buffers of modules, optimizer state, and what only native code leads to."""
        return owners.spared(tensors)

    def live(self) -> Iterator[torch.Tensor]:
        """Every tensor the garbage collector knows."""
        return heap.instances(heap.family(torch.Tensor, without=[EndedTensor]))

    def inner(self, tensor: torch.Tensor) -> list[Inner]:
        """Autograd nodes that saved it, and what else the collector cannot see."""
        from tenure.frameworks.torch import autograd

        return autograd.inner(tensor)


class _Weakref:
    """The module `weakref` as torch.utils sees it: without tenure's references."""

    def __init__(self, hidden: Callable[[Any], AbstractContextManager[None]]) -> None:
        self._hidden = hidden

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)

    def getweakrefs(self, thing: Any) -> list[Any]:
        """All weak references to it that are not tenure's."""
        with self._hidden(thing):
            return weakref.getweakrefs(thing)


def _is_of_torch(kind: type) -> bool:
    return str(kind.__module__).split(".")[0] == "torch"


def is_symbolic(tensor: torch.Tensor) -> bool:
    """Whether a tracer made it: it has no bytes."""
    if is_lazy(tensor):
        return True
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    if fake is not None and isinstance(tensor, fake.FakeTensor):
        return True
    functional = sys.modules.get("torch._subclasses.functional_tensor")
    if functional is not None and isinstance(tensor, functional.FunctionalTensor):
        return True
    wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", None)
    # Not `tensor.device`, which may be computed by the user's own class.
    return bool(wrapped is not None and wrapped(tensor)) or torch._C._dispatch_keys(tensor).has(
        torch._C.DispatchKey.Meta
    )


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Return the storage of a tensor that has one of its own, without a call into the user's classes and modes."""
    if is_symbolic(tensor) or _without_storage(tensor) or torch._is_functional_tensor(tensor):
        return None
    with torch._C.DisableTorchFunction():
        return _storage(tensor) if _layout(tensor) == torch.strided and counts.has_storage(tensor) else None


def address(tensor: torch.Tensor) -> int:
    """Return where a tensor's storage is, 0 if it has none; a lazy copy stays lazy."""
    storage = storage_of(tensor)
    if storage is None or not storage.nbytes():
        return 0
    with torch._C.DisableTorchFunction():
        return int(torch._C._data_address(tensor))


def _shape(tensor: torch.Tensor) -> Iterable[Any]:
    if is_lazy(tensor):
        return (None,)
    if tensor.is_nested and tensor.layout == torch.strided:
        return (tensor.size(0), *(None for _ in range(tensor.dim() - 1)))
    return tuple(tensor.shape)


def _without_storage(tensor: torch.Tensor) -> bool:
    # A wrapper subclass (DTensor, jagged nested tensor, ...) has a storage object without memory.
    return type(tensor) is not torch.Tensor and torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python)


def _buffer(tensor: torch.Tensor) -> Buffer:
    storage = tensor.untyped_storage()
    nbytes, device = storage.nbytes(), str(tensor.device)
    place = host.span(device, torch._C._data_address(tensor), nbytes) if nbytes else None
    # A storage that cannot be resized stands on memory that NumPy, DLPack or a file gave, or has lent it to NumPy.
    shared = not storage.resizable()
    return Buffer(("torch", storage._cdata), nbytes, device, StorageWeakRef(storage).expired, place, shared)


ADAPTER = Torch()
