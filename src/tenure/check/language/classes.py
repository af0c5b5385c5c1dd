"""Questions about classes of the checked code: their fields, properties and static methods."""

from __future__ import annotations

import ast

from tenure.check.abstract_values import Class, Func, Obj, Ref, Value


def is_property(function: Func) -> bool:
    """Whether reading it calls it."""
    decorators = getattr(function.node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id == "property" for d in decorators)


def is_static(function: Func) -> bool:
    """Whether it takes no object."""
    decorators = getattr(function.node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in decorators)


def is_class_method(function: Func) -> bool:
    """Whether it takes the class."""
    decorators = getattr(function.node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id == "classmethod" for d in decorators)


def fields(cls: Class) -> list[str]:
    """The annotated names of a class and of those it inherits from, in the order of its constructor."""
    found: dict[str, None] = {}
    for base in reversed(cls.bases):
        if isinstance(base, Class) and base is not cls:
            found.update(dict.fromkeys(fields(base)))
    for one in cls.node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            found[one.target.id] = None
    return list(found)


def container(cls: Class) -> str | None:
    """The kind of container that a class inherits from."""
    kinds = {"builtins.list": "list", "builtins.dict": "dict", "builtins.set": "set", "collections.deque": "deque",
             "collections.UserList": "list", "collections.UserDict": "dict", "collections.OrderedDict": "dict",
             "collections.defaultdict": "dict", "collections.Counter": "dict"}  # fmt: skip
    names = [base.name for base in cls.bases if isinstance(base, Ref)]
    inherited = [container(base) for base in cls.bases if isinstance(base, Class) and base is not cls]
    return next((kind for kind in [*(kinds.get(name) for name in names), *inherited] if kind is not None), None)


def is_sequential(value: Value | None) -> bool:
    """Whether an object calls one module after the other: its class inherits from torch's `Sequential`."""
    return isinstance(value, Obj) and value.cls is not None and _sequential(value.cls)


def _sequential(cls: Class) -> bool:
    return any(
        (isinstance(base, Ref) and base.name in ("torch.nn.Sequential", "torch.nn.modules.container.Sequential"))
        or (isinstance(base, Class) and base is not cls and _sequential(base))
        for base in cls.bases
    )


def is_tuple(value: Value) -> bool:
    """Whether an object is a named tuple."""
    return isinstance(value, Obj) and value.cls is not None and _named_tuple(value.cls)


def _named_tuple(cls: Class) -> bool:
    return any(
        (isinstance(base, Ref) and base.name == "typing.NamedTuple") or (isinstance(base, Class) and _named_tuple(base))
        for base in cls.bases
    )
