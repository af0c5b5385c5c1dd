"""What an ended torch handle becomes: it keeps its metadata, and everything else raises TensorReleased.

The handle is divorced from its TensorImpl, never emptied: `_swap_tensor_impl` gives it another one, without bytes, and
whatever else used the old one (a view, an export, the autograd graph, a `.grad` slot) goes on using it.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from tenure import native, sites
from tenure.frameworks import ended
from tenure.frameworks.torch import counts

_METADATA = {
    "shape", "dtype", "device", "layout", "ndim", "names", "is_cuda", "is_cpu", "is_meta", "is_sparse", "is_quantized",
    "is_mkldnn", "is_mps", "is_xpu", "is_nested", "is_sparse_csr", "requires_grad", "is_leaf", "itemsize", "nbytes",
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "stride", "is_floating_point", "is_complex",
    "is_signed", "is_contiguous", "get_device", "is_inference", "type", "__hash__", "_is_param", "is_conj", "is_neg",
}  # fmt: skip


class EndedTensor(torch.Tensor):  # type: ignore[misc]
    """The class of ended handles."""

    __array_priority__ = 10_000

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer for metadata, refuse everything else."""
        name = getattr(func, "__name__", "")
        field = getattr(getattr(func, "__self__", None), "__name__", "")
        if name == "__get__":
            name = field
        strides = args[0].__dict__.get("_ended_strides") if name in ("stride", "is_contiguous") else None
        if strides is not None:  # of the Python fallback, which stands on one poisoned byte
            with torch._C.DisableTorchFunctionSubclass():
                like = torch.empty_strided(args[0].shape, strides, device="meta")
            return func(like, *args[1:], **(kwargs or {}))
        if name == "__set__" and field == "_backward_hooks" and args[1] is None:
            # torch itself forgets the hooks when an in-place operation on a view gives the tensor a new history.
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args)
        if name in _METADATA and not (name == "type" and len(args) + len(kwargs or ()) > 1):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise _refuse(f"{_readable(func, name)}", args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse what reached the dispatcher past `__torch_function__`."""
        raise _refuse(f"{func}()", args, kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """Refuse NumPy's operators, which would otherwise fail with a text about sequences."""
        raise _refuse(f"numpy.{ufunc.__name__}()", (self,), None)

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        """Say what it was and how it ended."""
        from tenure.errors import epitaph

        info = ended.find(self)
        return epitaph(info) if info is not None else "<released tensor>"

    def __str__(self) -> str:
        """Say what it was and how it ended."""
        return self.__repr__()

    def __format__(self, spec: str) -> str:
        """Say what it was and how it ended."""
        return self.__repr__()


def divorce(tensor: torch.Tensor, kind: type, text: str) -> bool:
    """Take the bytes from under a sealed handle of class `kind`; False if native weak references forbid it."""
    with torch._C.DisableTorchFunctionSubclass():
        strides = tensor.stride() if tensor.layout == torch.strided else None
        try:
            other = _blank(tensor, text)
            torch._C._swap_tensor_impl(tensor, other)
        except RuntimeError:  # native weak references, or a kind of tensor that torch can make but not describe
            return _empty_in_place(tensor, text)
        # `other` now stands for the old tensor wherever native code hands it out: `.grad`, a view's base, saved
        # tensors. So it must be what the handle was.
        other.__class__ = kind
        attributes = {name: value for name, value in tensor.__dict__.items() if name != "_is_param"}
        other.__dict__.update(attributes)
        if handles() is None:
            tensor.__dict__["_ended_strides"] = strides
    return True


def seal(tensor: torch.Tensor) -> None:
    """Make the handle refuse data access, whatever happens to its bytes."""
    if isinstance(tensor, torch.nn.Parameter):
        tensor._is_param = True  # so that isinstance(handle, Parameter) stays true
    tensor.__class__ = EndedTensor


def unseal(tensor: torch.Tensor, kind: type) -> None:
    """Undo `seal`."""
    tensor.__class__ = kind
    if issubclass(kind, torch.nn.Parameter):
        tensor.__dict__.pop("_is_param", None)


def _blank(tensor: torch.Tensor, text: str) -> torch.Tensor:
    strided = tensor.layout == torch.strided
    # torch lets an integer tensor require a gradient once a float one was copied into it, but not from the start.
    requires_grad = tensor.requires_grad and (tensor.is_floating_point() or tensor.is_complex())
    core = handles()
    if core is None and strided:
        # Without our text in C++ a missing storage would be a null pointer to who gets past Python.
        poison = _poison(tensor.dtype, tensor.device).expand(tensor.shape)
        return torch.Tensor._make_subclass(EndedTensor, poison, requires_grad)
    blank = torch.Tensor._make_wrapper_subclass(
        EndedTensor,
        tensor.shape,
        strides=tensor.stride() if strided else None,
        storage_offset=tensor.storage_offset() if strided else None,
        dtype=tensor.dtype,
        layout=tensor.layout,
        device=tensor.device,
        requires_grad=requires_grad,
    )
    if core is not None and strided:
        core.empty(blank._cdata, text, False)
    return blank


def _poison(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(mode=False):
        return torch.full((), math.nan if dtype.is_floating_point or dtype.is_complex else 0, device=device).to(dtype)


def _empty_in_place(tensor: torch.Tensor, text: str) -> bool:
    core = handles()
    if core is None or counts.handle_users(tensor) != 1:
        return False
    core.empty(tensor._cdata, text, True)
    return True


def teach() -> None:
    """Let `to_dlpack`, a C++ function that knows no subclasses, say what tenure knows about ended tensors."""
    original = torch.utils.dlpack.to_dlpack
    if hasattr(original, "tenure"):
        return

    @functools.wraps(original)
    def to_dlpack(*args: Any, **kwargs: Any) -> Any:
        handle = _first_ended([*args, *kwargs.values()])
        if handle is not None:
            raise ended.complain(handle, "to_dlpack()", sites.here())
        return original(*args, **kwargs)

    to_dlpack.tenure = True  # type: ignore[attr-defined]
    for home in (torch, torch.utils.dlpack):
        if getattr(home, "to_dlpack", None) is original:
            home.to_dlpack = to_dlpack


def handles() -> Any:
    """The native part for torch handles, or None."""
    root = torch.__path__[0]
    return native.load(
        "tenure_torch_handles",
        "torch_handles.cpp",
        includes=[f"{root}/include"],
        flags=["-std=c++20", f"-L{root}/lib", "-lc10", f"-Wl,-rpath,{root}/lib"],
        key=torch.__version__,
    )


def _refuse(op: str, args: Any, kwargs: Any) -> Exception:
    handle = _first_ended([*args, *(kwargs or {}).values()])
    if handle is None:
        return AssertionError(f"{op} was rejected without a released tensor")
    return ended.complain(handle, op, sites.here())


def _first_ended(values: Any) -> Any:
    for value in values:
        if isinstance(value, EndedTensor) and ended.find(value) is not None:
            return value
        if isinstance(value, list | tuple):
            found = _first_ended(value)
            if found is not None:
                return found
    return None


def _readable(func: Any, name: str) -> str:
    if getattr(func, "__name__", "") in ("__get__", "__set__"):
        return f".{getattr(getattr(func, '__self__', None), '__name__', name)}"
    return f"{name}()"
