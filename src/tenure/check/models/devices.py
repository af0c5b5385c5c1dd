"""Where tensors are, by the value that `.to()` was given."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.check.abstract_values import Const, Tensor, Value


def moved(owner: Tensor, made: Tensor, name: str, args: Sequence[Value]) -> None:
    """Note where the result of a method is."""
    if name == "to" and len(args) == 1:
        made.state.device = args[0]
    elif name in ("clone", "contiguous"):
        made.state.device = owner.state.device


def there(owner: Tensor, args: Sequence[Value]) -> bool:
    """Whether a tensor is surely where `.to()` would bring it."""
    if len(args) != 1 or owner.state.device is None:
        return False
    known, wanted = owner.state.device, args[0]
    return known is wanted or (
        isinstance(known, Const) and isinstance(wanted, Const) and bool(known.value == wanted.value)
    )
