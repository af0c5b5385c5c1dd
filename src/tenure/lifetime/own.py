"""`own`: an owning handle for tensors that cannot be released in place (TensorFlow's eager tensors, NumPy arrays)."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

from tenure import errors, frameworks, sites
from tenure.frameworks import ended


class Owned:
    """A handle that owns one tensor, acts as that tensor in operations, and can release it.

    Example:
        x = tenure.own(tf.random.normal((1024, 1024)))
        y = tf.matmul(x, x)
        tenure.dispose(x)  # the bytes are free; a later use of x raises TensorReleased
    """

    __slots__ = ("__weakref__", "_value")
    __array_priority__ = 10_000

    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def value(self) -> Any:
        """The tensor. Reading it after the release raises `TensorReleased`."""
        if self._value is None:
            raise ended.complain(self, "", sites.here())
        return self._value

    def release(self) -> Any:
        """Return the tensor and stop owning it; `dispose` calls this to release it."""
        value, self._value = self._value, None
        return value

    @property
    def shape(self) -> Any:
        """The tensor's shape, also after the release."""
        info = ended.find(self)
        return self.value.shape if info is None else info.shape

    @property
    def dtype(self) -> Any:
        """The tensor's dtype; after the release, its name."""
        info = ended.find(self)
        return self.value.dtype if info is None else info.dtype

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that Owned does not speak: copying, pickling, array interfaces
            raise AttributeError(name)
        return getattr(self.value, name)

    def __repr__(self) -> str:
        info = ended.find(self)
        return f"tenure.own({self._value!r})" if info is None else errors.epitaph(info)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the tensor as a NumPy array."""
        import numpy

        return numpy.asarray(self.value, *args, **kwargs)

    def __dlpack__(self, **kwargs: Any) -> Any:
        """Return the tensor as a DLPack capsule."""
        return self.value.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        """Return the tensor's device for DLPack."""
        return self.value.__dlpack_device__()

    def __jax_array__(self) -> Any:
        """Return the tensor for JAX."""
        return self.value

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        """Return the tensor for TensorFlow."""
        import sys

        return sys.modules["tensorflow"].convert_to_tensor(self.value, dtype=dtype, name=name)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a torch function with the tensors in place of their owning handles."""
        return func(*_plain(args), **_plain(kwargs or {}))

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return iter(self.value)

    def __getitem__(self, key: Any) -> Any:
        return self.value[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value[key] = _plain(value)

    def __copy__(self) -> Owned:
        return own(copy.copy(self.value))

    def __deepcopy__(self, memo: Any) -> Owned:
        return own(copy.deepcopy(self.value, memo))

    def __reduce__(self) -> Any:
        return (own, (self.value,))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __eq__(self, other: object) -> Any:
        return self.value == _plain(other)

    def __ne__(self, other: object) -> Any:
        return self.value != _plain(other)

    __hash__ = object.__hash__


def own(x: Any) -> Owned:
    """Return an owning handle for one tensor, so that `dispose` can free a tensor that its framework cannot release.

    Example:
        x = tenure.own(tf.constant([1.0, 2.0]))

    Arguments:
        x: A tensor of any framework. Keep no other reference to it: the bytes are freed with the last reference.

    Raises:
        Unsupported: `x` is not a tensor, or is symbolic.
    """
    from tenure.lifetime.scope import register

    if isinstance(x, Owned):
        return x
    framework = frameworks.owner(x)
    if framework is None:
        raise errors.Unsupported(
            f"own() takes one tensor; got {type(x).__name__}, which is not a tensor: own its parts one by one"
        )
    if framework.info(x).state != "live":
        raise errors.Unsupported(f"own() takes a live tensor; got one that is {framework.info(x).state}")
    owned = Owned(x)
    register(owned, instead_of=x)
    return owned


def _plain(value: Any) -> Any:
    if isinstance(value, Owned):
        return value.value
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


def _binary(name: str) -> Callable[[Any, Any], Any]:
    function: Callable[[Any, Any], Any] = getattr(operator, name)

    def apply(self: Owned, other: Any) -> Any:
        return function(self.value, _plain(other))

    return apply


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    function: Callable[[Any, Any], Any] = getattr(operator, name)

    def apply(self: Owned, other: Any) -> Any:
        return function(_plain(other), self.value)

    return apply


def _unary(name: str) -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = getattr(operator, name)

    def apply(self: Owned) -> Any:
        return function(self.value)

    return apply


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor"):
    _plainname = _name.strip("_")
    setattr(Owned, f"__{_plainname}__", _binary(_name))
    setattr(Owned, f"__r{_plainname}__", _reflected(_name))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Owned, f"__{_name}__", _binary(_name))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Owned, f"__{_name}__", _unary(_name))
