"""JAX's part: an array, which cannot change. A new value is put into the store under the same name."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp

from tenure.frameworks.variables import base
from tenure.frameworks.variables.base import Wanted, glorot


class Jax:
    """Arrays."""

    name = "jax"

    def outside(self) -> AbstractContextManager[Any]:
        """A tracer must not outlive its trace."""
        context: AbstractContextManager[Any] = jax.ensure_compile_time_eval()
        return context

    def dtype(self, dtype: Any) -> str:
        """The common name."""
        return str(jnp.dtype(getattr(dtype, "name", dtype)).name)

    def native(self, dtype: Any) -> Any:
        """As JAX takes it: 64 bits only where that is switched on."""
        return jax.dtypes.canonicalize_dtype(dtype or float)

    def is_float(self, dtype: str | None) -> bool:
        """Also complex numbers."""
        return bool(jnp.issubdtype(self.native(dtype), jnp.inexact))

    def named(self, init: str, shape: tuple[int, ...], dtype: str | None, name: str) -> Any:
        """Drawn by a key that comes of the name: the same name has the same first value everywhere."""
        kind = self.native(dtype)
        if init == "zeros":
            return jnp.zeros(shape, kind)
        if init == "ones":
            return jnp.ones(shape, kind)
        if init == "normal":
            return jax.random.normal(_key(name), shape, kind)
        limit = glorot(shape)
        return jax.random.uniform(_key(name), shape, kind, -limit, limit)

    def full(self, shape: tuple[int, ...], number: complex, dtype: str | None) -> Any:
        """One number."""
        return jnp.full(shape, number, self.native(dtype))

    def called(self, init: Callable[..., Any], wanted: Wanted) -> Any:
        """The initializers of `jax.nn` take a key."""
        if next(iter(base.parameters(init)), "") != "key":
            return base.call(init, wanted, self.native(wanted.dtype))
        return init(_key(wanted.name), wanted.whole_shape(), self.native(wanted.dtype))

    def own(self, value: Any, dtype: str | None) -> Any:
        """A copy: the original may be donated or deleted."""
        kind = dtype or getattr(value, "dtype", None)
        return jnp.array(value, dtype=None if kind is None else self.native(kind), copy=True)

    def variable(self, value: Any, name: str, *, trainable: bool) -> Any:
        """An array is all there is."""
        return value


def _key(name: str) -> Any:
    return jax.random.fold_in(jax.random.key(0), zlib.crc32(name.encode()))


MAKER = Jax()
