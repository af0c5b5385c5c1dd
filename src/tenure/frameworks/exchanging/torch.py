"""torch's part. A torch tensor can always be written to, so read-only bytes are copied unless the caller vouches."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch

from tenure.errors import Unsupported
from tenure.frameworks.exchanging.base import Host, Made, because, common, spelled
from tenure.frameworks.torch.adapter import is_symbolic


class Torch:
    """torch's tensors and parameters."""

    def host(self, tensor: torch.Tensor, *, lasting: bool) -> Host:
        """The storage's own bytes where the tensor is dense, contiguous and on the host."""
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            _check(tensor)
            name = spelled(str(tensor.dtype)[6:], "torch")
            plain = tensor.detach()
            away = str(plain.device) if plain.device.type != "cpu" else ""
            lazy = plain.is_conj() or plain.is_neg()
            scattered = not plain.is_contiguous()
            plain = plain.resolve_conj().resolve_neg().cpu().contiguous()
            why = because(
                f"from {away} to the host" if away else "",
                "its conjugate or negation was not computed yet" if lazy else "",
                "it is not contiguous" if scattered else "",
            )
            shape = tuple(tensor.shape)
            return Host(_flat(plain, lasting=lasting), name, shape, "torch", bool(why), why)

    def over(self, buffer: memoryview, dtype: str, shape: tuple[int, ...], owner: object, *, share: bool) -> Made:
        """A tensor on the buffer, which torch keeps; a copy of what must not be written to."""
        kind = _dtype(dtype)
        if buffer.readonly and not share:
            why = "these bytes are read-only, and torch has no read-only tensors"
            return Made(torch.frombuffer(bytearray(buffer), dtype=kind).reshape(shape), True, why)
        held = _writable(buffer, owner)
        if ctypes.addressof(held) % kind.itemsize:
            return Made(torch.frombuffer(bytearray(buffer), dtype=kind).reshape(shape), True, "it is not aligned")
        # Not by `reshape`, which makes a view with a base: this one is the tensor of its bytes.
        return Made(torch.frombuffer(held, dtype=kind).as_strided_(shape, _strides(shape)))

    def empty(self, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A tensor without elements."""
        return torch.empty(shape, dtype=_dtype(dtype), device="cpu")

    def take(self, tensor: Any) -> torch.Tensor:
        """By DLPack, on the device where it is."""
        return torch.from_dlpack(tensor)


def _dtype(dtype: str) -> Any:
    kind = getattr(torch, common(dtype), None)
    if kind is None:
        raise Unsupported(f"this torch has no {common(dtype)}")
    return kind


def _check(tensor: torch.Tensor) -> None:
    kept_elsewhere = type(tensor) is not torch.Tensor and torch._C._dispatch_keys(tensor).has(
        torch._C.DispatchKey.Python
    )
    if is_symbolic(tensor):
        raise Unsupported("a symbolic torch tensor has no bytes to share: the trace that made it owns it")
    if tensor.is_nested:
        raise Unsupported("a nested torch tensor has no single shape; share its parts (x.unbind()) instead")
    if tensor.layout != torch.strided:
        raise Unsupported(f"a torch tensor of layout {tensor.layout} has several buffers; share x.to_dense() instead")
    if tensor.is_quantized:
        raise Unsupported("a quantised torch tensor is more than its bytes; share x.int_repr() and its scale instead")
    if kept_elsewhere:
        raise Unsupported(f"a {type(tensor).__name__} keeps its bytes in other tensors; share those instead")


def _flat(plain: torch.Tensor, *, lasting: bool) -> memoryview:
    nbytes = plain.numel() * plain.element_size()
    if not nbytes:
        return memoryview(b"")
    if lasting:
        # NumPy's way in tells torch that this storage must not be resized from now on.
        return memoryview(plain.reshape(-1).view(torch.uint8).numpy()).toreadonly()
    array: Any = (ctypes.c_ubyte * nbytes).from_address(plain.data_ptr())
    array.owner = plain  # a handle of its own, which nobody else can end
    return memoryview(array).cast("B").toreadonly()


def _writable(buffer: memoryview, owner: object) -> Any:
    """The buffer's bytes as something that torch takes without a warning."""
    kind = ctypes.c_ubyte * buffer.nbytes
    if buffer.readonly:
        from tenure.frameworks.exchanging.numpy import address

        array: Any = kind.from_address(address(buffer))
    else:
        array = kind.from_buffer(buffer)
    array.owner = (buffer, owner)
    return array


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[index + 1 :]) for index in range(len(shape))]


EXCHANGER = Torch()
