"""What is asked of a framework to give its tensors' bytes and to take others', and the dtypes that all of them share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tenure.errors import Unsupported

# What safetensors calls it: the frameworks' common name, bytes, and DLPack's code.
DTYPES = {
    "BOOL": ("bool", 1, 6),
    "I8": ("int8", 1, 0),
    "I16": ("int16", 2, 0),
    "I32": ("int32", 4, 0),
    "I64": ("int64", 8, 0),
    "U8": ("uint8", 1, 1),
    "U16": ("uint16", 2, 1),
    "U32": ("uint32", 4, 1),
    "U64": ("uint64", 8, 1),
    "F16": ("float16", 2, 2),
    "F32": ("float32", 4, 2),
    "F64": ("float64", 8, 2),
    "BF16": ("bfloat16", 2, 4),
    "C64": ("complex64", 8, 5),
    "F8_E4M3": ("float8_e4m3fn", 1, 10),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 1, 11),
    "F8_E5M2": ("float8_e5m2", 1, 12),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 1, 13),
    "F8_E8M0": ("float8_e8m0fnu", 1, 14),
}
_SPELLED = {common: name for name, (common, _, _) in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Host:
    """A tensor's bytes on the host: read-only, in C order, and good as long as `data` lives.

    `dtype` is spelled as in safetensors. `copied` says that they are not the tensor's own bytes, and `why`.
    """

    data: memoryview
    dtype: str
    shape: tuple[int, ...]
    framework: str
    copied: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor that was made of bytes; `copied` says that it has bytes of its own, and `why`."""

    tensor: Any
    copied: bool = False
    why: str = ""

    def __iter__(self) -> Any:
        return iter((self.tensor, self.copied, self.why))


class Exchanger(Protocol):
    """One framework's part. Tensors come live and concrete."""

    def host(self, tensor: Any, *, lasting: bool) -> Host:
        """The bytes on the host. With `lasting` they are lent for long: the tensor must not move them meanwhile."""

    def over(self, buffer: memoryview, dtype: str, shape: tuple[int, ...], owner: object, *, share: bool) -> Made:
        """A tensor over these bytes (not empty), without a copy if that is safe. `owner` lives as long as they do."""

    def empty(self, dtype: str, shape: tuple[int, ...]) -> Any:
        """A tensor without elements: there are no bytes to share."""

    def take(self, tensor: Any) -> Any:
        """Another framework's tensor on an accelerator, by DLPack; raises what that raises."""


def spelled(common: str, framework: str) -> str:
    """The dtype in safetensors' spelling."""
    name = _SPELLED.get(common)
    if name is None:
        raise Unsupported(
            f"{framework}'s {common} has no name in safetensors, so its bytes cannot be shared; "
            f"convert it first to one of {', '.join(sorted(_SPELLED))}"
        )
    return name


def spelling(common: str) -> str:
    """The dtype in safetensors' spelling, or the framework's where that has none."""
    return _SPELLED.get(common, common)


def common(dtype: str) -> str:
    """The frameworks' name of a dtype in safetensors' spelling."""
    found = DTYPES.get(dtype)
    if found is None:
        raise Unsupported(f"{dtype!r} is not a dtype that tenure can share; use one of {', '.join(DTYPES)}")
    return found[0]


def because(*reasons: str) -> str:
    """The reasons that there are, in one sentence."""
    return "; ".join(reason for reason in reasons if reason)
