"""The libraries that `check` knows: one entry each. To add one, write its functions and add an entry."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tenure.check.abstract_interpreter import Entered, Interpreter
from tenure.check.abstract_values import Framework, Obj, Tensor, Value
from tenure.check.language import standard_library
from tenure.check.models import (
    jax_arrays,
    jax_modules,
    numpy_arrays,
    tensorflow_calls,
    tensorflow_contexts,
    torch_calls,
    torch_contexts,
    torch_objects,
)

# A call, as the tables of library_calls describe it: interpreter, name, words of the line, arguments, node.
Call = Callable[[Interpreter, str, tuple[str, ...], list[Value], dict[str, Value], ast.AST], Value]
TensorMethod = Callable[[Interpreter, Tensor, str, list[Value], dict[str, Value], ast.Call], Value]
Context = Callable[[Interpreter, Obj, ast.expr], Entered]
ObjectMethod = Callable[[Interpreter, Obj, str, list[Value], dict[str, Value], ast.Call], Value | None]


def _no_attribute(m: Interpreter, owner: Obj, name: str, node: ast.AST) -> Value | None:
    return None


def _no_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    return None


def _no_call(m: Interpreter, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    return None


@dataclass(frozen=True)
class Library:
    """What a library does, beyond its tables. A function that returns None leaves the question to the next library."""

    framework: Framework  # whose tensors it makes
    packages: tuple[str, ...] = ()  # whose functions are in the tables
    calls: Mapping[str, Call] = field(default_factory=dict)  # by the first word of a line
    tensor_method: TensorMethod | None = None
    telling: frozenset[str] = frozenset()  # methods that only its tensors have
    flags: frozenset[str] = frozenset()  # flags that only its tensors have
    object_attribute: Callable[[Interpreter, Obj, str, ast.AST], Value | None] = _no_attribute
    object_method: ObjectMethod = _no_method
    contexts: Mapping[str, Context] = field(default_factory=dict)  # by the kind of the object
    call_object: Callable[[Interpreter, Obj, list[Value], dict[str, Value], ast.AST], Value | None] = _no_call


LIBRARIES = (
    Library(
        framework="torch",
        packages=("torch", "functorch"),
        calls=torch_calls.CALLS,
        tensor_method=torch_calls.method,
        telling=torch_calls.TELLING,
        object_attribute=torch_objects.object_attribute,
        object_method=torch_objects.object_method,
        contexts=torch_contexts.CONTEXTS,
        call_object=torch_calls.call_object,
    ),
    Library(
        framework="tf",
        packages=("tensorflow",),
        calls=tensorflow_calls.CALLS,
        tensor_method=tensorflow_calls.method,
        flags=frozenset({"variable"}),
        object_attribute=tensorflow_calls.object_attribute,
        object_method=tensorflow_calls.object_method,
        contexts=tensorflow_contexts.CONTEXTS,
        call_object=tensorflow_calls.call_object,
    ),
    Library(
        framework="jax",
        packages=("jax", "equinox", "flax", "optax", "haiku"),
        calls=jax_modules.CALLS,
        tensor_method=jax_arrays.method,
        object_attribute=jax_modules.object_attribute,
        call_object=jax_modules.call_object,
    ),
    Library(framework="np", tensor_method=numpy_arrays.method, object_method=standard_library.object_method),
)
BY_PACKAGE = {package: library for library in LIBRARIES for package in library.packages}
