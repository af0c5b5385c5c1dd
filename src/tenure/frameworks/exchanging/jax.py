"""JAX's part. It takes foreign bytes only where they are aligned, and copies silently else: so that is looked at."""

from __future__ import annotations

from typing import Any

import jax
import numpy

from tenure.errors import Unsupported
from tenure.frameworks.exchanging import base
from tenure.frameworks.exchanging.base import Host, Made, spelled
from tenure.frameworks.exchanging.numpy import Capsule, address, flat, numpy_dtype

_ALIGNMENT = 64


class Jax:
    """JAX's arrays."""

    def host(self, tensor: Any, *, lasting: bool) -> Host:
        """The buffer's own bytes where it is one, on the host."""
        if hasattr(tensor, "_base_array"):
            raise Unsupported("a typed PRNG key is not a tensor; share jax.random.key_data(key) instead")
        name = spelled(tensor.dtype.name, "JAX")
        if not tensor.is_fully_addressable:
            raise Unsupported("this JAX array has shards in other processes; share the addressable ones instead")
        devices = tensor.sharding.device_set
        # Another handle of the same buffer: what NumPy makes of it is cached there, and not in the user's array,
        # where it would block the donation of that for ever.
        one = tensor.addressable_data(0) if len(devices) == 1 else tensor
        array = numpy.asarray(one)
        here = len(devices) == 1 and array.size and _address(tensor) == array.__array_interface__["data"][0]
        why = "" if here or not array.size else f"from {', '.join(sorted(map(str, devices)))} to the host"
        return Host(flat(array), name, tuple(tensor.shape), "jax", bool(why), why)

    def over(self, buffer: memoryview, dtype: str, shape: tuple[int, ...], owner: object, *, share: bool) -> Made:
        """An array on the buffer if that is aligned; JAX never writes to bytes that are not its own."""
        start = address(buffer)
        with _all_dtypes():  # else JAX makes 32 bits of 64
            if start % _ALIGNMENT:
                array = numpy.frombuffer(buffer, numpy_dtype(dtype)).reshape(shape)
                copy = jax.device_put(array, jax.devices("cpu")[0], may_alias=False)
                return Made(copy, True, f"JAX needs bytes at a multiple of {_ALIGNMENT}")
            made = jax.dlpack.from_dlpack(Capsule(buffer, dtype, shape, owner))
        if made.dtype.name != base.common(dtype):
            raise Unsupported(f"this JAX converts {base.common(dtype)} to {made.dtype.name}")
        copied = _address(made) != start
        return Made(made, copied, "JAX did not accept these bytes as they are" if copied else "")

    def empty(self, dtype: str, shape: tuple[int, ...]) -> Any:
        """An array without elements."""
        with _all_dtypes():
            return jax.device_put(numpy.empty(shape, numpy_dtype(dtype)), jax.devices("cpu")[0])

    def take(self, tensor: Any) -> Any:
        """By DLPack, on the device where it is."""
        with _all_dtypes():
            return jax.dlpack.from_dlpack(tensor)


def _address(array: Any) -> int | None:
    # On an accelerator it is an address there, which is none of the host's.
    return int(array.unsafe_buffer_pointer()) if next(iter(array.sharding.device_set)).platform == "cpu" else None


def _all_dtypes() -> Any:
    """A context in which JAX keeps 64 bits."""
    enable: Any = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    return enable(True)


EXCHANGER = Jax()
