"""torch's part: a `Parameter`, or, where nothing is to be trained, a tensor without gradient."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tenure.frameworks.variables import base
from tenure.frameworks.variables.base import Wanted, glorot


class Torch:
    """Parameters."""

    name = "torch"

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """What is made in inference mode can never be trained."""
        with torch.inference_mode(mode=False), torch.no_grad():
            yield

    def dtype(self, dtype: Any) -> str:
        """The common name."""
        known = dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(getattr(dtype, "name", dtype)), None)
        if not isinstance(known, torch.dtype):
            raise TypeError
        return str(known)[6:]

    def native(self, dtype: str | None) -> torch.dtype:
        """torch's own."""
        found: torch.dtype = getattr(torch, dtype) if dtype else torch.get_default_dtype()
        return found

    def is_float(self, dtype: str | None) -> bool:
        """Also complex numbers."""
        kind = self.native(dtype)
        return bool(kind.is_floating_point or kind.is_complex)

    def named(self, init: str, shape: tuple[int, ...], dtype: str | None, name: str) -> torch.Tensor:
        """From torch's own generator."""
        tensor = torch.empty(shape, dtype=self.native(dtype))
        if init == "zeros":
            return tensor.zero_()
        if init == "ones":
            return tensor.fill_(1)
        if init == "normal":
            return tensor.normal_()
        limit = glorot(shape)
        return tensor.uniform_(-limit, limit)

    def full(self, shape: tuple[int, ...], number: complex, dtype: str | None) -> torch.Tensor:
        """One number."""
        return torch.full(shape, number, dtype=self.native(dtype))

    def called(self, init: Callable[..., Any], wanted: Wanted) -> Any:
        """The functions of `torch.nn.init` fill a tensor."""
        if next(iter(base.parameters(init)), "") != "tensor":
            return base.call(init, wanted, self.native(wanted.dtype))
        tensor = torch.empty(wanted.whole_shape(), dtype=self.native(wanted.dtype))
        init(tensor)
        return tensor

    def own(self, value: Any, dtype: str | None) -> torch.Tensor:
        """A copy."""
        kind = getattr(torch, dtype) if dtype else None
        if isinstance(value, torch.Tensor):
            return value.detach().to(kind or value.dtype, copy=True).contiguous()
        return torch.tensor(value, dtype=kind)

    def variable(self, value: torch.Tensor, name: str, *, trainable: bool) -> torch.Tensor:
        """A Parameter on the tensor's own bytes."""
        if isinstance(value, torch.nn.Parameter):
            return value
        if not trainable or not (value.is_floating_point() or value.is_complex()):
            return value.detach() if value.requires_grad else value
        return torch.nn.Parameter(value.detach())


@functools.cache
def uncompiled(function: Callable[..., Any]) -> Any:
    """The function, which Dynamo calls and does not trace."""
    return torch._dynamo.disable(function)


MAKER = Torch()
