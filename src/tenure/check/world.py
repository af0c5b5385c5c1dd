"""The world of a program: what is open, running or noted while it is followed, beyond names and the heap."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tenure.check.abstract_values import Frame, Node, Obj, Spot, Storage, Tensor, Trace, Value, Wrapped
from tenure.check.facts import CycleKind, Escape
from tenure.check.syntax import Loop


@dataclass(slots=True, eq=False)
class Attempt:
    """A `try` block: at which depth of calls it is, and whether tensors are used in it."""

    depth: int
    tensors: bool = False
    spot: Spot | None = None  # where the first tensor used in it was created
    called: set[int] = field(default_factory=set)  # functions that used tensors


@dataclass(slots=True, eq=False)
class Thread:
    """A function that another thread runs: the first graph that it builds, and what it changes in place."""

    graph: Spot | None = None
    writes: list[tuple[Storage, Spot]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Pass:
    """A call of a model, or of a method of one: its place, the nodes it made, and the loops it was in."""

    spot: Spot
    owner: Obj
    around: Pass | None  # the call of a method of this model that it is a part of
    forward: bool
    turn: tuple[tuple[int, int], ...]
    loops: list[Loop] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    unsure: bool = False  # gradients may be off
    evaluating: bool = False
    kept: bool = False  # the model itself keeps a result, whoever takes it from there
    clock: int = 0  # when it ended


@dataclass(slots=True, eq=False)
class Assumed:
    """A call of something unknown on which `eval()` was called, so that it is probably a model."""

    spot: Spot
    owner: Tensor
    made: Tensor
    turn: tuple[tuple[int, int], ...]
    clock: int
    loops: list[Loop]
    unsure: bool  # gradients may be off


@dataclass(slots=True, eq=False)
class World:
    """What the interpreter knows of a program at one time. Lists of what was noted are read at its end."""

    script: bool = False  # it is followed from where it starts, so callers are known
    unfinished: bool = False  # it was too large to be followed to its end
    jax: bool = False  # its text mentions JAX

    # What is open or running
    guards: list[set[str]] = field(default_factory=list)  # what the conditions ask that lead here
    attempts: list[Attempt] = field(default_factory=list)
    handlers: list[tuple[ast.ExceptHandler, Attempt]] = field(default_factory=list)
    unknown_contexts: int = 0
    unknown_sessions: int = 0  # those of them that may open a session
    blocks: list[tuple[ast.AST | None, Callable[[Value], None]]] = field(default_factory=list)  # of context managers
    function_attributes: dict[ast.AST, dict[str, Value]] = field(default_factory=dict)
    locks: int = 0
    yielding: set[int] = field(default_factory=set)  # the loops of generators
    hook: str | None = None  # the kind of the hook that runs
    thread: Thread | None = None
    process: Obj | None = None
    threads: dict[int, list[tuple[list[tuple[Storage, Spot]], Spot, bool]]] = field(default_factory=dict)
    scopes: list[tuple[Obj, list[Tensor]]] = field(default_factory=list)  # tenure.scope

    # Names, attributes and caches
    attributes_set: dict[tuple[int, str, int], int] = field(default_factory=dict)
    attribute_reads: dict[tuple[int, str], list[tuple[int, tuple[Trace, ...]]]] = field(default_factory=dict)
    escapes: dict[Tensor, Escape] = field(default_factory=dict)
    left: list[tuple[Escape, Trace, dict[Any, Any], Any]] = field(default_factory=list)  # the slots of escaped values
    scratch: list[tuple[Escape, Trace, list[tuple[int, tuple[Trace, ...]]]]] = field(default_factory=list)
    deleted: list[tuple[str, Value, Spot, Frame, int]] = field(default_factory=list)
    collections: list[tuple[int, Frame]] = field(default_factory=list)
    caches: list[Wrapped] = field(default_factory=list)
    plain: set[int] = field(default_factory=set)  # expressions that were not tensors at least once
    emptied: dict[int, set[str]] = field(default_factory=dict)  # by module
    temporary_functions: list[tuple[Spot, Spot, Spot]] = field(default_factory=list)

    # Autograd and training
    trains: bool = False
    evaluates: bool = False
    zeroed: bool = False
    grads_cleared: bool = False
    optimizers: list[Obj] = field(default_factory=list)
    reset_modules: list[Any] = field(default_factory=list)
    step_clocks: list[int] = field(default_factory=list)
    backward_in_loop: Spot | None = None
    leaf_gradients: set[ast.AST] = field(default_factory=set)  # where `.grad` of a leaf was read in a loop
    cleared_modules: list[Any] = field(default_factory=list)  # whose gradients are reset; None for unknown ones
    leaf_graphs: list[tuple[Spot, Tensor]] = field(default_factory=list)  # leaves with gradients that have a graph
    groups: dict[int, list[Obj]] = field(default_factory=dict)  # the modules added to an optimizer, by its id
    group_facts: list[tuple[Obj, Spot, Obj]] = field(default_factory=list)
    groups_read: set[int] = field(default_factory=set)
    replaced: set[int] = field(default_factory=set)  # modules that were replaced by others
    created_graphs: list[tuple[Spot, bool, list[Obj]]] = field(default_factory=list)
    users: list[tuple[Node, Obj]] = field(default_factory=list)  # steps that do not keep them
    forward_pre_hooks: bool = False
    weighted: list[tuple[Node, Obj]] = field(default_factory=list)  # steps that keep a module's weights
    running_pass: Pass | None = None
    # Backward passes that began at a value that may come from anywhere: when, and in which iterations
    blind_backwards: list[tuple[int, tuple[tuple[int, int], ...]]] = field(default_factory=list)
    trained_through: set[int] = field(default_factory=set)  # statements whose graphs a later backward pass needs
    passes: dict[int, list[Pass]] = field(default_factory=dict)
    assumed: dict[int, list[Assumed]] = field(default_factory=dict)
    backwards: list[tuple[int, tuple[tuple[int, int], ...]]] = field(
        default_factory=list
    )  # when, and in which iterations
    cycles: list[tuple[Obj, Spot, CycleKind]] = field(default_factory=list)
    tensor_hooks: list[tuple[Tensor, Obj, Spot]] = field(default_factory=list)
    context_outputs: list[tuple[Node, Spot, Spot, bool]] = field(default_factory=list)

    # TensorFlow
    second_version: bool = True
    may_turn_off: bool = False  # an imported module may turn eager execution off
    graph_mode: bool = False
    functions_eager: bool = False  # tf.function does nothing
    default_graph: Obj | None = None
    layers_by_name: dict[Any, list[Obj]] = field(default_factory=dict)
    symbolic_layers: list[Obj] = field(default_factory=list)
    thread_graph: Obj | None = None  # the default graph of other threads
    implicit_graph: Obj | None = None  # of a session without a graph
    graphs: list[Obj] = field(default_factory=list)
    dead_graphs: list[Obj | None] = field(default_factory=list)
    reset: Spot | None = None
    sessions: list[Obj] = field(default_factory=list)
    tapes: list[Obj] = field(default_factory=list)
    variable_scopes: list[Obj] = field(default_factory=list)
    variables: list[Tensor] = field(default_factory=list)
    named: dict[tuple[int, str], Spot] = field(default_factory=dict)
    names_taken: bool = False
    initialised_elsewhere: bool = False
    run_loops: set[int] = field(default_factory=set)
    ops_in_loop: list[tuple[Loop, Spot, ast.AST]] = field(default_factory=list)
    variables_in_trace: list[Spot] = field(default_factory=list)
