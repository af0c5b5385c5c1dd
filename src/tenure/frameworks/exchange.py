"""One tensor in several frameworks: its bytes on the host, and tensors made over bytes, without a copy where possible.

Three facts decide, all found by experiment. torch cannot mark a tensor read-only, so a write to one on a read-only map
ends the process. TensorFlow takes unaligned bytes, and aborts in the first operation on them. JAX copies unaligned
ones, and turns 64 bits into 32, both silently. A map that is private (copy on write) and aligned suits all of them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, cast

from tenure import errors, frameworks, sites
from tenure.errors import Unsupported
from tenure.frameworks import ended
from tenure.frameworks.exchanging.base import DTYPES, Exchanger, Host, Made, because, common, spelling
from tenure.model import TensorInfo

__all__ = ["DTYPES", "NAMES", "Host", "Made", "host", "into", "live", "made", "spelling"]
NAMES = ("torch", "jax", "tensorflow", "numpy")


def live(thing: Any) -> TensorInfo:
    """The description of a tensor that has bytes.

    Raises:
        Unsupported: it is no tensor, or a symbolic one.
        TensorReleased: it has ended.
    """
    framework = frameworks.owner(thing)
    if framework is None:
        known = ", ".join(NAMES)
        raise Unsupported(
            f"only tensors can be shared ({known}), each under a name of its own; got {type(thing).__name__}"
        )
    if ended.find(thing) is not None:
        raise ended.complain(thing, "a store", sites.here())
    info = framework.info(thing)
    if info.state in ("deleted", "donated", "disposed"):
        raise errors.released(info, "a store", sites.here())
    if info.state != "live":
        raise Unsupported(f"{info.label} is {info.state}: it has no bytes to share, the trace that made it owns it")
    return info


def host(tensor: Any) -> Host:
    """A tensor's bytes on the host: read-only, in C order, the tensor's own where that is possible.

    Keep `data` only for the length of a write: torch may move a storage that it resizes.

    Raises:
        Unsupported: no tensor, a symbolic one, or one that is more than a row of numbers; the text says why.
        TensorReleased: it has ended.
    """
    return _exchanger(live(tensor).framework).host(tensor, lasting=False)


def made(
    framework: str,
    buffer: Any,
    dtype: str,
    shape: tuple[int, ...],
    owner: object = None,
    *,
    share: bool = False,
) -> Made:
    """A framework's tensor over bytes on the host, without a copy where that is safe: `(tensor, copied, why)`.

    The bytes' owner is kept alive as long as they are used. The framework is imported if it is not yet.

    Arguments:
        framework: "torch", "jax", "tensorflow" or "numpy".
        buffer: anything with the buffer protocol, contiguous: a map of a file, bytes. One that can be written to
            should be the reader's own (a private map), since torch and NumPy can write.
        dtype: as in safetensors ("F32", "BF16").
        shape: of the tensor.
        owner: kept with the bytes; the buffer itself is, in any case.
        share: have torch share also what is read-only. Nobody may write to that tensor, and nothing hinders it.

    Raises:
        Unsupported: there is no such framework or dtype, or the bytes are not as many as they should be.
    """
    size = DTYPES[dtype][1] if common(dtype) else 0
    for count in shape:
        size *= count
    view = memoryview(buffer).cast("B")
    if view.nbytes != size:
        raise Unsupported(f"{dtype}{list(shape)} has {size} bytes, and these are {view.nbytes}")
    if not size:
        return Made(_exchanger(framework).empty(dtype, tuple(shape)))
    return _exchanger(framework).over(view, dtype, tuple(shape), owner, share=share)


def into(tensor: Any, like: str) -> Made:
    """A tensor as another framework's, without a copy where possible: `(tensor, copied, why)`.

    The result shares the bytes: what is written through one is read through the other. An accelerator's tensor goes by
    DLPack and stays there, where the other framework can reach it.
    """
    info = live(tensor)
    if info.framework == like:
        return Made(tensor)
    target, source = _exchanger(like), _exchanger(info.framework)
    failure = ""
    if "cpu" not in info.device.lower():
        try:
            return Made(target.take(_plain(tensor)))
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            failure = f"{like} could not take it by DLPack ({str(error).splitlines()[0]:.80})"
    lent = source.host(tensor, lasting=True)
    if not lent.data.nbytes:
        return Made(target.empty(lent.dtype, lent.shape))
    result = target.over(lent.data, lent.dtype, lent.shape, tensor if lent.copied else None, share=True)
    return Made(result.tensor, lent.copied or result.copied, because(failure, lent.why, result.why))


def _plain(tensor: Any) -> Any:
    return tensor.detach() if hasattr(tensor, "requires_grad") else tensor


def _exchanger(name: str) -> Exchanger:
    if name not in NAMES:
        raise Unsupported(f"{name!r} is not a framework that tenure supports: {', '.join(NAMES)}")
    module: Any = sys.modules.get(f"tenure.frameworks.exchanging.{name}")
    if module is None:
        try:
            importlib.import_module(name)
        except ImportError:
            raise Unsupported(f"{name} is not installed here") from None
        module = importlib.import_module(f"tenure.frameworks.exchanging.{name}")
    return cast("Exchanger", module.EXCHANGER)
