"""NumPy's part, and what the others lean on: arrays over any address, and DLPack capsules of dtypes it has no word for."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy

from tenure.errors import Unsupported
from tenure.frameworks.exchanging.base import DTYPES, Host, Made, because, common, spelled

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_CODE = 20  # where a DLTensor has its dtype's code: after data (8 bytes), device (8) and the number of dimensions (4)


class Numpy:
    """NumPy's arrays."""

    def host(self, tensor: Any, *, lasting: bool) -> Host:
        """The array's own bytes, unless they lie in another order."""
        if tensor.dtype.hasobject or tensor.dtype.names is not None:
            raise Unsupported(f"a NumPy array of {tensor.dtype} is not a tensor: it has no plain numbers to share")
        plain = tensor.view(numpy.ndarray)
        name = spelled(plain.dtype.name, "NumPy")
        swapped = not plain.dtype.isnative
        if swapped:
            plain = plain.astype(plain.dtype.newbyteorder("="))
        scattered = not plain.flags.c_contiguous
        why = because("its bytes were in reverse order" if swapped else "", "it is not contiguous" if scattered else "")
        return Host(flat(plain), name, tensor.shape, "numpy", bool(why), why)

    def over(self, buffer: memoryview, dtype: str, shape: tuple[int, ...], owner: object, *, share: bool) -> Made:
        """An array on the buffer, read-only where that is."""
        kind = numpy_dtype(dtype)
        if address(buffer) % kind.alignment:
            return Made(numpy.frombuffer(bytearray(buffer), kind).reshape(shape), True, "it is not aligned")
        return Made(numpy.asarray(Span(buffer, owner, buffer.readonly)).view(kind).reshape(shape))

    def empty(self, dtype: str, shape: tuple[int, ...]) -> Any:
        """An array without elements."""
        return numpy.empty(shape, numpy_dtype(dtype))

    def take(self, tensor: Any) -> Any:
        """NumPy has no accelerator."""
        raise BufferError("NumPy has no tensors there")


class Span:
    """A buffer as NumPy takes it: with its owner, and writable or not, whatever the buffer says of itself.

    Frameworks whose tensors cannot change take only what DLPack can describe, and that knows nothing read-only.
    """

    def __init__(self, buffer: memoryview, owner: object, read_only: bool) -> None:
        self._kept = (buffer, owner)
        self.__array_interface__ = {
            "version": 3,
            "shape": (buffer.nbytes,),
            "typestr": "|u1",
            "data": (address(buffer), read_only),
        }


class Capsule:
    """What `from_dlpack` functions take: bytes in host memory with any dtype that DLPack has a code for.

    NumPy makes it, of integers of that size, so that its deleter is native: it may be called from any thread, and late.
    """

    def __init__(self, buffer: memoryview, dtype: str, shape: tuple[int, ...], owner: object) -> None:
        _, size, code = DTYPES[dtype]
        array = numpy.asarray(Span(buffer, owner, read_only=False)).view(f"u{size}").reshape(shape)
        self.capsule = array.__dlpack__()
        ctypes.c_uint8.from_address(_pointer(self.capsule, b"dltensor") + _CODE).value = code

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def flat(array: Any) -> memoryview:
    """The bytes of an array in C order, read-only; a copy where they lie in another."""
    packed = numpy.ascontiguousarray(array).reshape(-1)
    return memoryview(packed.view(numpy.uint8)).toreadonly() if packed.size else memoryview(b"")


def address(buffer: memoryview) -> int:
    """Where a buffer lies."""
    return int(numpy.frombuffer(buffer, numpy.uint8).__array_interface__["data"][0])


def numpy_dtype(dtype: str) -> Any:
    """NumPy's dtype, from ml_dtypes where NumPy has none of its own."""
    name = common(dtype)
    if DTYPES[dtype][2] not in (4, *range(10, 15)):
        return numpy.dtype(name)
    if "ml_dtypes" not in sys.modules:
        try:
            import ml_dtypes  # noqa: F401 - importing it teaches NumPy these
        except ImportError:
            raise Unsupported(f"NumPy has no {name}: `pip install ml_dtypes` gives it one") from None
    return numpy.dtype(getattr(sys.modules["ml_dtypes"], name))


EXCHANGER = Numpy()
