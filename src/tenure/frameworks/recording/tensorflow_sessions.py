"""What TensorFlow's sessions take and give: the NumPy arrays that are fed to a run, and those that it returns.

A run is seen where Python calls TensorFlow's runtime for it. What lies inside, the values of variables and of operations,
has no Python object and is not seen. Neither is what NumPy does with an array, so each counts as in use until its end.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from time import monotonic_ns
from typing import Any

import numpy

from tenure import stacks
from tenure.frameworks.base import Sink

# In `tensorflow.python.client.pywrap_tf_session`; the arrays to feed are the argument with this number.
RUNS = ("TF_SessionRun_wrapper", "TF_SessionPRun_wrapper", "TF_SessionRunCallable")
FED = 2
_OP = "Session.run"
_DEVICE = "CPU:0"
_UNCHECKED = "arrays that Session.run takes and returns are not checked for leaks"
_INSIDE = "memory inside Session.run, of variables and intermediate values, is not included"


class Sessions:
    """The arrays that sessions took and gave, until they are freed; `sink` returns who records them."""

    def __init__(self, sink: Callable[[], Sink | None]) -> None:
        self._sink = sink
        self._capture = stacks.capturer()
        self.forget()

    def forget(self) -> None:
        """Begin without arrays, as a child process does."""
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._began = False

    def stop(self) -> None:
        """Record that those which are left are in use to the end."""
        sink = self._sink()
        if sink is not None:
            for _, number in list(self._known.values()):
                sink.used(number)
        self._known.clear()

    def take(self, fed: Any) -> None:
        """A run takes these."""
        sink = self._sink()
        if sink is None:
            return
        if not self._began:
            self._began = True
            sink.partly(("leaks",), _UNCHECKED)
            sink.partly(("peak",), _INSIDE)
        values: Iterable[Any] = fed.values() if isinstance(fed, dict) else fed
        stack, time = self._capture(), monotonic_ns()
        for value in values:
            array = _owner(value)
            if array is not None and not self._is_known(array):
                self._begin(sink, array, "input", stack, time)
            if array is not None:
                sink.used(self._known[id(array)][1], _OP, stack, time)

    def give(self, returned: bool, result: Any, _: Any) -> None:
        """A run returned these."""
        sink = self._sink()
        if returned and sink is not None and isinstance(result, list):
            stack, time = self._capture(), monotonic_ns()
            for value in result:
                array = _owner(value)
                if array is not None and not self._is_known(array):
                    self._begin(sink, array, "", stack, time)

    def _is_known(self, array: Any) -> bool:
        known = self._known.get(id(array))
        return known is not None and known[0]() is array

    def _begin(self, sink: Sink, array: Any, kind: str, stack: int, time: int) -> None:
        nbytes = 0 if array.dtype.hasobject else array.nbytes
        number = sink.born("tensorflow", nbytes, _DEVICE, _OP, array.shape, str(array.dtype), stack, kind, time)
        key = id(array)
        self._known[key] = weakref.ref(array, lambda ref: self._end(key, ref)), number

    def _end(self, key: int, ref: Any) -> None:
        known = self._known.get(key)
        sink = self._sink()
        if known is not None and known[0] is ref:
            del self._known[key]
            if sink is not None:
                sink.used(known[1])
                sink.ended(known[1])


def _owner(value: Any) -> Any:
    """The array whose memory this is, or is a part of. None for numbers, and for files that are mapped into memory."""
    if not isinstance(value, numpy.ndarray):
        return None
    while isinstance(value.base, numpy.ndarray):
        value = value.base
    return None if isinstance(value, numpy.memmap) else value
