"""How long each tensor of a PyTorch, TensorFlow or JAX program stays in memory, what keeps it alive, and how to release it.

PYTEST_DONT_REWRITE
"""

# pytest looks for that marker. Without it, a traced pytest warns that this module is imported already, or fails to start
# under `-W error`.

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; to import `typing` would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any

    from tenure.errors import CapExceeded as CapExceeded
    from tenure.errors import NameMissing as NameMissing
    from tenure.errors import NameTaken as NameTaken
    from tenure.errors import ScopeError as ScopeError
    from tenure.errors import SessionClosed as SessionClosed
    from tenure.errors import StoreError as StoreError
    from tenure.errors import TensorReleased as TensorReleased
    from tenure.errors import TenureError as TenureError
    from tenure.errors import TraceError as TraceError
    from tenure.errors import Unsupported as Unsupported
    from tenure.explain.api import explain as explain
    from tenure.explain.hook import install as install
    from tenure.explain.hook import uninstall as uninstall
    from tenure.integrations.ipython import load_ipython_extension as load_ipython_extension
    from tenure.integrations.ipython import unload_ipython_extension as unload_ipython_extension
    from tenure.lifetime.dispose import dispose as dispose
    from tenure.lifetime.dispose import remains as remains
    from tenure.lifetime.look import holders as holders
    from tenure.lifetime.look import info as info
    from tenure.lifetime.look import memory as memory
    from tenure.lifetime.own import Owned as Owned
    from tenure.lifetime.own import own as own
    from tenure.lifetime.scope import Scope as Scope
    from tenure.lifetime.scope import adopt as adopt
    from tenure.lifetime.scope import carry as carry
    from tenure.lifetime.scope import keep as keep
    from tenure.lifetime.scope import scope as scope
    from tenure.model import Holder as Holder
    from tenure.model import Link as Link
    from tenure.model import Memory as Memory
    from tenure.model import Remains as Remains
    from tenure.model import Remnant as Remnant
    from tenure.model import Site as Site
    from tenure.model import TensorInfo as TensorInfo
    from tenure.model import Usage as Usage
    from tenure.sharing.session import Session as Session
    from tenure.sharing.store import Store as Store
    from tenure.sharing.variables import variable as variable
    from tenure.sharing.variables_scope import variable_scope as variable_scope
    from tenure.trace.api import mark as mark
    from tenure.trace.api import step as step
    from tenure.trace.api import trace as trace
    from tenure.traces import Trace as Trace
    from tenure.traces import load as load

__version__ = "0.1.0"

# The same list once more, read when a name is first asked for: `import tenure` must cost next to nothing.
_HOMES = {
    "errors": (
        "CapExceeded",
        "NameMissing",
        "NameTaken",
        "ScopeError",
        "SessionClosed",
        "StoreError",
        "TensorReleased",
        "TenureError",
        "TraceError",
        "Unsupported",
    ),
    "explain.api": ("explain",),
    "explain.hook": ("install", "uninstall"),
    "integrations.ipython": ("load_ipython_extension", "unload_ipython_extension"),
    "lifetime.dispose": ("dispose", "remains"),
    "lifetime.look": ("holders", "info", "memory"),
    "lifetime.own": ("Owned", "own"),
    "lifetime.scope": ("Scope", "adopt", "carry", "keep", "scope"),
    "model": ("Holder", "Link", "Memory", "Remains", "Remnant", "Site", "TensorInfo", "Usage"),
    "sharing.session": ("Session",),
    "sharing.store": ("Store",),
    "sharing.variables": ("variable",),
    "sharing.variables_scope": ("variable_scope",),
    "trace.api": ("mark", "step", "trace"),
    "traces": ("Trace", "load"),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)  # noqa: PLE0605 - a list, made of the table


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'tenure' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"tenure.{home}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
