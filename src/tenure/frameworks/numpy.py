"""The NumPy adapter: the host array. An array cannot be emptied under its handle; `own` can let go of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy

from tenure.frameworks import host
from tenure.frameworks.base import Buffer, Inner
from tenure.model import TensorInfo


class Numpy:
    """NumPy's part of the Framework protocol."""

    name = "numpy"
    passes_errors = False

    def owns(self, kind: type) -> bool:
        """Arrays and their subclasses; scalars are Python numbers here."""
        return issubclass(kind, numpy.ndarray)

    def info(self, tensor: numpy.ndarray[Any, Any]) -> TensorInfo:
        """The array's description."""
        return TensorInfo("numpy", tensor.shape, str(tensor.dtype), "cpu", int(tensor.nbytes), kind="array")

    def buffers(self, tensor: numpy.ndarray[Any, Any]) -> list[Buffer]:
        """The memory of the array at the end of the chain of bases."""
        root = tensor
        while isinstance(root.base, numpy.ndarray):
            root = root.base
        ref = weakref.ref(root)
        borrowed = root.base is not None  # a memory map, another framework's tensor, bytes: theirs to free

        def gone() -> bool | None:
            return None if borrowed else ref() is None

        start, nbytes = int(root.__array_interface__["data"][0]), int(root.nbytes)
        return [Buffer(("numpy", start, nbytes), nbytes, "cpu", gone, host.span("cpu", start, nbytes))]

    def refusal(self, tensor: numpy.ndarray[Any, Any]) -> str:
        """Never: the handle and the bytes are one object."""
        return "NumPy cannot free an array that is still referenced; delete the last reference, or use `tenure.own(x)`"

    def sole(self, tensors: list[Any]) -> dict[object, bool | None]:
        """Unknown: only the handle's own end frees the bytes."""
        return {buffer.key: None for tensor in tensors for buffer in self.buffers(tensor)}

    def end(self, tensors: list[Any], notice: Callable[[Any], TensorInfo]) -> list[tuple[Any, str]]:
        """Nothing to do: `refusal` said so."""
        return []

    def prepare(self, hidden: Callable[[Any], AbstractContextManager[None]]) -> None:
        """Nothing: weak references do not matter to it."""

    def births(self) -> Iterable[tuple[type, None]]:
        """None: what a scope could not end it does not claim."""
        return ()

    def exempt(self, tensors: list[Any]) -> set[int]:
        """None."""
        return set()

    def live(self) -> Iterator[Any]:
        """None: arrays are unknown to the garbage collector."""
        return iter(())

    def inner(self, tensor: Any) -> list[Inner]:
        """None."""
        return []


ADAPTER = Numpy()
