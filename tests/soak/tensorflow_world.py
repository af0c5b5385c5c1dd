"""TensorFlow's world: eager tensors cannot be ended; variables and owning handles can."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import tensorflow as tf
from world import World, Wrong
from world import run as run_both

import tenure


class TensorflowWorld(World):
    def __init__(self, *, real: bool) -> None:
        super().__init__(real=real)
        self.sizes: dict[int, tuple[int, int]] = {}

    def name(self, thing, level="current", **about):
        variable = isinstance(thing, tf.Variable)
        return super().name(thing, None if variable else level, **{"endable": variable, **about})

    def make(self, i, j, k):
        shape = [(2, 3), (3,), (4, 1), (2, 3)][i % 4]
        return tf.constant(
            np.arange(float(np.prod(shape))).reshape(shape) * 0.37 + i + k, dtype=[tf.float32, tf.float64][j % 2]
        )

    def unary(self, x, k):
        return [
            lambda: x * 2, lambda: x + 1, lambda: tf.exp(x), lambda: tf.reduce_sum(x, keepdims=False), lambda: tf.abs(x) - 1,
            lambda: tf.cast(x, tf.float32) * 1, lambda: tf.concat([tf.reshape(x, [-1])] * 2, 0),
        ][k % 7]()  # fmt: skip

    def binary(self, x, y, k):
        flat = [tf.reshape(tf.cast(t, tf.float32), [-1])[:3] for t in (x, y)]
        return [
            lambda: tf.concat(flat, 0), lambda: flat[0][:, None] * flat[1][None], lambda: tf.reduce_sum(flat[0]) + flat[1],
        ][k % 3]()  # fmt: skip

    def meta(self, thing):
        return (tuple(thing.shape), thing.dtype.name)

    def digest(self, slot):
        thing = self.use(slot)
        thing = thing.value if isinstance(thing, tenure.Owned) else thing
        data = (
            np.asarray(thing)
            if slot.export
            else (tf.identity(thing) if not isinstance(thing, tf.Variable) else thing).numpy()
        )
        return data.tobytes() + f"{data.shape} {data.dtype}".encode()

    def track(self, slot):
        return () if slot.export else (self.add(int(np.prod(slot.meta[0])) * slot.thing.dtype.size),)

    def add(self, nbytes: int) -> int:
        self.sizes[len(self.sizes)] = (len(self.sizes), nbytes)
        return len(self.sizes) - 1

    def freed(self):
        """TensorFlow does not tell. By the model: bytes live with a handle, or with a memory view of them."""
        held = {buffer for slot in self.slots if not slot.gone and not slot.ended for buffer in slot.buffers}
        held |= {slot.note for slot in self.slots if slot.export and not slot.gone}
        return [at not in held for at in range(len(self.sizes))]

    def nbytes(self, buffer):
        return self.sizes[buffer][1]

    def accesses(self):
        return [
            ("+ 1", lambda x: x + 1), ("[0]", lambda x: x[0]), ("numpy()", lambda x: x.numpy()), ("asarray", np.asarray),
            ("reduce_sum", tf.reduce_sum), ("identity", tf.identity), ("assign", lambda x: x.assign(np.ones(x.shape))),
            ("assign_add", lambda x: x.assign_add(np.ones(x.shape))), ("convert", tf.convert_to_tensor),
            ("read_value", lambda x: x.read_value()), ("stack", lambda x: tf.stack([x, x])), ("==", lambda x: x == 1),
            ("1 -", lambda x: 1 - x), ("relu", tf.nn.relu), ("tf.Variable", tf.Variable), ("add_n", lambda x: tf.add_n([x, x])),
        ]  # fmt: skip

    def owned_accesses(self):
        return [pair for pair in super().owned_accesses() if pair[0] != ".T"] + [
            ("tf.exp", tf.exp),
            ("stack", lambda x: tf.stack([x])),
        ]

    def judge(self, doomed, remains, *, already=0, cannot=(), maybe=()):
        """What TensorFlow keeps for itself (cached constants, born in a scope) is reported too; ours must be among it."""
        want = Counter(self.nbytes(buffer) for buffer in {buffer for slot in cannot for buffer in slot.buffers})
        if want - Counter(remnant.nbytes for remnant in remains.cannot):
            raise Wrong(f"cannot be ended: {dict(want)}, tenure says {remains.cannot}")
        rest = type(remains)(tuple(remnant for remnant in remains if remnant.fate != "cannot"))
        blocked = {buffer for slot in cannot for buffer in slot.buffers}  # whoever else lets go of those
        doomed = [slot for slot in doomed if not blocked & set(slot.buffers)]
        super().judge(doomed, rest, already=already, maybe=maybe)

    def do_variable(self, i, j, k):
        self.name(tf.Variable(self.make(i, j, k) * 1))

    def do_assign(self, i, j, k):
        x = self.pick(i, [slot for slot in self.live() if isinstance(slot.thing, tf.Variable)])
        if x is None:
            return False
        if k % 2:
            x.thing.assign_add(tf.ones_like(x.thing))
        else:
            x.thing.assign(x.thing * 2 - 1)

    def do_tape(self, i, j, k):
        x = self.pick(i, [slot for slot in self.live() if isinstance(slot.thing, tf.Variable)])
        if x is None:
            return False
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(x.thing * x.thing)
        self.name(tape.gradient(y, x.thing))

    def do_export(self, i, j, k):
        x = self.pick(
            i, [slot for slot in self.live() if slot.owned is None and not isinstance(slot.thing, tf.Variable)]
        )
        if x is None:
            return False
        self.name(memoryview(x.thing), export=True).note = x.buffers[0]


def warm_up() -> None:
    run([[name[3:], 1, 2, 3] for name in dir(TensorflowWorld) if name.startswith("do_")])


def run(program: list[Any]) -> dict[str, Any]:
    return run_both(TensorflowWorld, program)
