"""Classes whose objects JAX takes apart: which of their fields become traced values."""

from __future__ import annotations

import ast

from tenure.check.abstract_values import Class, Ref

# Decorators that make a pytree of all fields that are not marked as static.
_DECORATORS = ("struct.dataclass", "chex.dataclass", "PyTreeNode")


def fields(cls: Class) -> frozenset[str]:
    """The fields of which it is certain that JAX traces numbers in them."""
    named_tuple = any(isinstance(base, Ref) and base.name == "typing.NamedTuple" for base in cls.bases)
    decorators = [ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in cls.node.decorator_list]
    node = any(isinstance(base, Ref) and base.name.endswith("PyTreeNode") for base in cls.bases)
    if not (named_tuple or node or any(one.endswith(_DECORATORS) for one in decorators)):
        return frozenset()
    found = [one for one in cls.node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    return frozenset(one.target.id for one in found if not _static(one.value))  # type: ignore[union-attr]


def _static(default: ast.expr | None) -> bool:
    """`field(pytree_node=False)`, `field(static=True)`."""
    return isinstance(default, ast.Call) and any(word.arg in ("pytree_node", "static") for word in default.keywords)
