"""What happens to TensorFlow's eager tensors and variables.

Operations are seen where Python has TensorFlow's runtime run them, in every thread: what they give is born, what they
take is used. A call of a `tf.function` is one operation, by the function's name; what goes on inside is the runtime's
and is not seen, and nothing is recorded while a graph is built. Constants and conversions are seen where Python makes
them; variables where they are made, with the life of their handle.

Some operations give their input's buffer under a new handle (`Identity`, `Reshape` and the like, and the reading of a
variable): it counts once, and ends with the last of them. What shares a buffer in other ways counts again: a result
of a `tf.function` that is its argument, a value assigned to a variable while its own handle lives, slices. A read
of a variable that is still held when the variable is assigned to goes its own way, unseen. The bytes of strings are
not known. Of sessions, what they take and give is recorded; see `tensorflow_sessions`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tensorflow.python import pywrap_tfe
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from tenure import stacks
from tenure.frameworks.base import Sink, Source
from tenure.frameworks.recording import arrays
from tenure.frameworks.recording.arrays import FIRST_TENSORFLOW, Arrays
from tenure.frameworks.recording.tensorflow_hooks import (
    ALIASES,
    KINDS,
    Eager,
    Hooks,
    describe,
    of_variable,
    only_device,
    op_name,
    there_already,
)
from tenure.frameworks.recording.tensorflow_sessions import Sessions

_RUNTIME = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")


def source() -> Source:
    """The recorder: native if it can be built, else one in Python."""
    core = arrays.core("tensorflow")
    if core is not None:
        return Native(core)
    from tenure.frameworks.recording.tensorflow_python import InPython

    return InPython()


class Native(Arrays):
    """TensorFlow's native recorder."""

    name = "tensorflow"

    def __init__(self, core: Any) -> None:
        super().__init__(core, KINDS)
        self._sessions = Sessions(lambda: self.sink)
        self._hooks = Hooks(self, core.around, self._sessions, core)
        self._steps: set[str] = set()  # functions that apply gradients

    def start(self, sink: Sink) -> None:
        """Stand before the runtime, and where constants, variables and steps are made."""
        self.begin(sink)
        self._hooks.clear()
        self._steps.clear()
        self.core.start(
            Eager, stacks.core()._capture, self._describe, self._name, self.trouble, FIRST_TENSORFLOW,
            BaseResourceVariable, self._hooks.tick, only_device,
        )  # fmt: skip
        tensors, variables = there_already()
        for tensor in tensors:
            self.core.born(tensor, 0, True)
        for variable in variables:
            self._hooks.made(variable)
        for name in _RUNTIME:
            self._hooks.patch(pywrap_tfe, name, partial(self.core.stand_in, name))
        self._hooks.start()

    def stop(self) -> None:
        """Leave everything as it was."""
        self._hooks.stop()
        self._sessions.stop()
        self.core.stop()
        self.sink = None

    def forked(self, sink: Sink) -> None:
        """Tensors and arrays of the parent are not this process's."""
        super().forked(sink)
        self._sessions.forget()

    def born(self, tensor: Any, kind: str) -> None:
        """Python made it."""
        self.core.born(tensor, KINDS.index(kind) + 1)

    def variable(self, variable: Any, kind: str) -> None:
        """Its life is that of its handle."""
        found = of_variable(variable)
        if found is not None:
            what, nbytes = self._describe(*found[1])
            op = self.ops.number("VarHandleOp")
            self.core.variable(found[0], op, KINDS.index(kind) + 1 if kind else 0, what, nbytes)

    def is_a(self, tensor: Any, kind: str) -> None:
        """What it is was found out."""
        self.core.is_a(tensor, KINDS.index(kind) + 1)

    def steps_in(self, function: str) -> None:
        """A call of this function is a step."""
        self._steps.add(function)
        if function in self.ops.words:
            self._flag(function)

    def living(self) -> list[tuple[int, int, int, Any]]:
        """Number, step, stack and first handle of each buffer."""
        found: list[tuple[int, int, int, Any]] = self.core.living()
        return found

    def _describe(self, enum: int, shape: Any, device: str) -> tuple[int, int]:
        """The number of what such tensors hold, and their bytes; 0 for those that hold no data."""
        found = describe(enum, shape, device)
        if found is None:
            return 0, 0
        shape, dtype, place, nbytes = found
        return self.what(str(shape), dtype, place), nbytes

    def _name(self, op: Any) -> int:
        name = op_name(op)
        number = self.ops.number(name)
        self._flag(name)
        return number

    def _flag(self, name: str) -> None:
        self.core.flag(self.ops.number(name), name in ALIASES, name in self._steps)
