"""JAX's world: arrays never share bytes, except with the host arrays that were exported from them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from world import World, Wrong
from world import run as run_both

import tenure

SQUARE = jax.jit(lambda x: x * x + 1)
DOUBLE = jax.vmap(lambda row: row * 2)
DONATED = jax.jit(lambda x: x * 2, donate_argnums=0)
GRAD = jax.jit(jax.grad(lambda x: (x * x).sum()))


class JaxWorld(World):
    def __init__(self, *, real: bool) -> None:
        super().__init__(real=real)
        self.sizes: list[int] = []

    @staticmethod
    def use(slot):
        # A limit of JAX: its functions take no object that only says `__jax_array__`.
        return slot.thing.value if isinstance(slot.thing, tenure.Owned) else World.use(slot)

    def make(self, i, j, k):
        shape = [(2, 3), (3,), (4, 1), (2, 3)][i % 4]
        return jnp.asarray(
            np.arange(float(np.prod(shape))).reshape(shape) * 0.37 + i + k, dtype=["float32", "int32"][j % 2]
        )

    def unary(self, x, k):
        return [
            lambda: x * 2, lambda: x + 1, lambda: jnp.exp(x), lambda: jnp.sum(x), lambda: SQUARE(x), lambda: jnp.ravel(x) * 3,
            lambda: jnp.array(x, copy=True), lambda: x.T + 0, lambda: DOUBLE(x),
            lambda: GRAD(x.astype("float32")),
        ][k % 10]()  # fmt: skip

    def binary(self, x, y, k):
        return [
            lambda: x * jnp.mean(y), lambda: x + jnp.sum(y), lambda: jnp.concatenate([jnp.ravel(x)[:1], jnp.ravel(y)[:2]]),
            lambda: jnp.outer(jnp.ravel(x)[:2], jnp.ravel(y)[:3]), lambda: jnp.where(x > 0, x, jnp.sum(y)), lambda: jnp.asarray(x),
        ][k % 6]()  # fmt: skip

    def meta(self, thing):
        return (thing.shape, str(thing.dtype), thing.ndim, thing.size, thing.nbytes)

    def digest(self, slot):
        thing = self.use(slot)
        thing = thing.value if isinstance(thing, tenure.Owned) else thing
        if slot.export:
            return np.asarray(thing).tobytes()
        # Of a copy: np.asarray(x) itself would make, and keep, a host view of x.
        return np.asarray(jnp.array(thing, copy=True)).tobytes() + f"{thing.shape} {thing.dtype}".encode()

    def track(self, slot):
        if slot.export:
            return ()
        self.sizes.append(slot.thing.nbytes)
        return (len(self.sizes) - 1,)

    def freed(self):
        """JAX does not tell. By the model: bytes live with their handle, or with a host array made from it."""
        held = {buffer for slot in self.slots if not slot.gone and not slot.ended for buffer in slot.buffers}
        held |= {slot.note for slot in self.slots if slot.export and not slot.gone}
        return [at not in held for at in range(len(self.sizes))]

    def nbytes(self, buffer):
        return self.sizes[buffer]

    def accesses(self):
        ones = jnp.ones(3)
        return [
            ("+ 1", lambda x: x + 1), ("[0]", lambda x: x[0]), ("asarray", np.asarray), ("sum", lambda x: x.sum()),
            ("jit", SQUARE), ("tolist", lambda x: x.tolist()), ("item", lambda x: x.reshape(-1)[0].item()),
            ("copy", copy.copy), ("deepcopy", copy.deepcopy), ("pickle", pickle.dumps), ("==", lambda x: x == 1),
            ("at", lambda x: x.at[0].set(1)), ("device_get", jax.device_get), ("dlpack", np.from_dlpack),
            ("astype", lambda x: x.astype("int8")), ("concatenate", lambda x: jnp.concatenate([ones, jnp.ravel(x)])),
            ("np.add", lambda x: np.add(x, 1)), ("list", list), ("device", lambda x: x.device),
        ]  # fmt: skip

    def must_be_ended(self, slot, k):
        if slot.owned is None and k % 7 == 0:  # methods in C++, which cannot be taught: JAX's own words
            try:
                slot.thing.block_until_ready()
            except RuntimeError:
                return
            raise Wrong(f"ended slot {slot.number}: block_until_ready() said nothing")
        if slot.meta[0] == () and slot.owned is None:
            k = 0  # a scalar has no [0]
        super().must_be_ended(slot, k)

    def do_export(self, i, j, k):
        x = self.pick(i, [slot for slot in self.live() if slot.owned is None])
        if x is None:
            return False
        made = np.asarray(x.thing) if k % 2 else np.from_dlpack(x.thing)
        self.name(made, export=True).note = x.buffers[0]

    def do_donate(self, i, j, k):
        """A donated array ends by JAX's own hand; tenure says "already"."""
        if not self.real:
            return
        x = jnp.arange(6.0) + k
        DONATED(x).block_until_ready()
        if x.is_deleted() and (
            tenure.info(x).state not in ("deleted", "donated") or len(tenure.dispose(x).already) != 1
        ):
            raise Wrong(f"a donated array: {tenure.info(x)}")


def warm_up() -> None:
    run([[name[3:], 1, 2, 3] for name in dir(JaxWorld) if name.startswith("do_")])


def run(program: list[Any]) -> dict[str, Any]:
    return run_both(JaxWorld, program)
