"""NumPy's world: arrays cannot be ended under their handles; owning handles can let go of them."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from world import World
from world import run as run_both

import tenure


class NumpyWorld(World):
    CLAIMS = False

    def __init__(self, *, real: bool) -> None:
        super().__init__(real=real)
        self.refs: list[tuple[Any, int]] = []

    def name(self, thing, level="current", **about):
        return super().name(thing, level, endable=False, **about)

    def make(self, i, j, k):
        shape = [(2, 3), (3,), (4, 1), (0, 3)][i % 4]
        return np.arange(float(np.prod(shape))).reshape(shape).astype(["f4", "f8", "i8"][j % 3]) + k

    def unary(self, x, k):
        return [
            lambda: x * 2, lambda: x + 1, lambda: np.exp(x), lambda: np.sum(x, axis=0, keepdims=True), lambda: np.array(x), lambda: -x,
            lambda: np.sqrt(np.abs(x)), lambda: x[...] * x.shape[0],
        ][k % 8]()  # fmt: skip

    def binary(self, x, y, k):
        return [
            lambda: x * np.mean(y), lambda: x + y, lambda: np.concatenate([np.ravel(x), np.ravel(y)]), lambda: x > np.sum(y),
            lambda: np.outer(x, y),
        ][k % 5]()  # fmt: skip

    def meta(self, thing):
        return (tuple(thing.shape), str(thing.dtype))

    def digest(self, slot):
        thing = self.use(slot)
        data = np.asarray(thing.value if isinstance(thing, tenure.Owned) else thing)
        return data.tobytes() + f"{data.shape} {data.dtype}".encode()

    def track(self, slot):
        if not isinstance(slot.thing, np.ndarray):
            return ()
        root = slot.thing
        while isinstance(root.base, np.ndarray):
            root = root.base
        for at, (ref, _) in enumerate(self.refs):
            if ref() is root:
                return (at,)
        self.refs.append((weakref.ref(root), root.nbytes))
        return (len(self.refs) - 1,)

    def freed(self):
        return [ref() is None for ref, _ in self.refs]

    def nbytes(self, buffer):
        return self.refs[buffer][1]

    def accesses(self):
        return self.owned_accesses()

    def do_view(self, i, j, k):
        x = self.pick(i)
        if x is None:
            return False
        t = self.use(x)
        views = [
            lambda: t[:1],
            lambda: t.T[..., :],
            lambda: t.reshape(-1)[:],
            lambda: t[None],
            lambda: t.view(),
            lambda: t[..., :1],
        ]
        result = self.attempt(views[k % len(views)])
        if result is not None:
            self.name(result)

    def do_inplace(self, i, j, k):
        x = self.pick(i, [slot for slot in self.live() if slot.owned is None])
        if x is None:
            return False

        def change():
            x.thing[..., :1] = k

        self.attempt(change)

    def do_export(self, i, j, k):
        x = self.pick(i, [slot for slot in self.live() if slot.owned is None])
        if x is None:
            return False
        self.name(memoryview(x.thing), export=True)


def warm_up() -> None:
    run([[name[3:], 1, 2, 3] for name in dir(NumpyWorld) if name.startswith("do_")])


def run(program: list[Any]) -> dict[str, Any]:
    return run_both(NumpyWorld, program)
