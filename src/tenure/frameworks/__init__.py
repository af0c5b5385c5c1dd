"""Which framework owns an object. Frameworks wake up when the user has imported them, never before."""

from __future__ import annotations

import importlib
import sys
from typing import Any, cast

from tenure.frameworks.base import Framework, Growing, Source

# Torch before numpy and so on: the order in which an unknown class is asked about.
_ADAPTERS = ("torch", "jax", "tensorflow", "numpy")
# Those that a trace records; of NumPy, only what their tensors share.
RECORDED = ("torch", "jax", "tensorflow")
_awake: dict[str, Framework] = {}
_all_awake: tuple[Framework, ...] = ()
_asleep: tuple[str, ...] = _ADAPTERS
_owners: dict[type, Framework | None] = {}


def awake() -> tuple[Framework, ...]:
    """The frameworks that the user has imported, each with its adapter; the same tuple until there is one more."""
    for name in _asleep:
        if name in sys.modules and _is_imported(name):
            _wake(name)
    return _all_awake


def _wake(name: str) -> None:
    global _all_awake, _asleep
    module: Any = importlib.import_module(f"tenure.frameworks.{name}")
    _awake[name] = cast("Framework", module.ADAPTER)
    _owners.clear()
    _all_awake = tuple(_awake.values())
    _asleep = tuple(other for other in _ADAPTERS if other not in _awake)


def owner(thing: object) -> Framework | None:
    """The framework whose tensor this is, or None."""
    return owner_of(type(thing))


def owner_of(kind: type) -> Framework | None:
    """The framework whose tensors are of this class, or None."""
    if kind not in _owners or (_owners[kind] is None and len(_awake) != _imported()):
        _owners[kind] = next((framework for framework in awake() if framework.owns(kind)), None)
    return _owners[kind]


def recorder(name: str) -> Source:
    """A recorder for a framework that is imported."""
    module: Any = importlib.import_module(f"tenure.frameworks.recording.{name}")
    return cast("Source", module.source())


def grower(name: str, source: Source) -> Growing:
    """What looks for growth in a framework that `source` records."""
    module: Any = importlib.import_module(f"tenure.frameworks.growing.{name}")
    return cast("Growing", module.grower(source))


def _imported() -> int:
    return sum(_is_imported(name) for name in _ADAPTERS)


def _is_imported(name: str) -> bool:
    module = sys.modules.get(name)
    # While a framework's import is still running, its parts are not there yet.
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)
