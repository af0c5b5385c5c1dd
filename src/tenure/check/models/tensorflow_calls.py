"""TensorFlow and Keras: graphs, sessions, variables, tapes, arrays, datasets, layers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Func, Num, Obj, Seq, Spot, Tensor, Trace, Value, Wrapped
from tenure.check.language.calls import as_function
from tenure.check.library_calls import effect
from tenure.check.lifetimes import escapes, uses
from tenure.check.lifetimes.graphs import closure
from tenure.check.lifetimes.traces import tracing
from tenure.check.models import keras_fit, operations, symbols, tensor_arrays, tensorflow_graphs, tensorflow_sessions
from tenure.check.models.tensorflow_graphs import current_graph, place
from tenure.check.value_queries import best, tensors


def _variable(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    if any(t.framework == "tf" and t.kind == "function" for t in m.traces) and not m.conditions and not m.ifs:
        m.world.variables_in_trace.append(m.spot(node))
    made = m.tensor("tf", node)
    made.trace = None
    made.flags = frozenset({"variable"})
    place(m, made, inputs, node)
    if made.node is not None:
        made.node.state.variable = True
    tensorflow_sessions.variable_made(m, made)
    return made


def _get_variable(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = _variable(m, name, words, [], {}, node)
    tensorflow_sessions.named_variable(m, made, args[0] if args else kwargs.get("name", NONE), node)  # type: ignore[arg-type]
    return made


def _tape(m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("tape", node)
    wish = kwargs.get("persistent", args[0] if args else None)
    made.state.persistent = wish is not None and not (isinstance(wish, Const) and wish.value is False)
    return made


def _tensor_array(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    return tensor_arrays.make(m, args, kwargs, node)


def _dataset(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = m.obj("dataset", node)
    if name.endswith("from_generator"):
        return made
    made.state.elements = _sliced(m, args[0], node) if args and name.endswith("from_tensor_slices") else None
    return made


def _sliced(m: Interpreter, value: Value, node: ast.AST) -> Value:
    one = best(value)
    if isinstance(one, Seq) and one.kind == "tuple":
        return m.seq("tuple", [m.tensor("tf", node) for _ in one.items], node)
    return m.tensor("tf", node)


def _init_scope(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    return m.obj("init_scope", node)


def _trainer(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = m.obj("trainer" if name.endswith("Optimizer") else name, node)
    made.state.name = name.rpartition(".")[2]
    if not any(isinstance(one, ast.Attribute) and one.value is node for one in m.frame.module.nodes):
        for value in (best(one) for one in (*args, *kwargs.values())):
            if isinstance(value, Obj):
                value.state.stored = True  # a checkpoint holds its objects, as long as a name holds it
    if made.state.name == "Saver" and "defer_build" not in kwargs:
        made.state.ready = list(m.world.variables)  # it can restore no others
        tensorflow_graphs.added(m, current_graph(m), node)
    return made


# Optimizers that create variables of their own for each variable that they train.
_WITH_SLOTS = frozenset(
    ["AdamOptimizer", "AdagradOptimizer", "AdadeltaOptimizer", "RMSPropOptimizer", "MomentumOptimizer", "FtrlOptimizer"]
)


def _trainer_method(m: Interpreter, owner: Obj, name: str, args: list[Value], node: ast.Call) -> Value:
    """Methods of an optimizer of TensorFlow 1."""
    if name == "variables":
        return m.seq("list", list(owner.state.created), node)
    if name not in ("minimize", "apply_gradients"):
        return m.unknown(node)
    given = [t for value in args for t in tensors(value)]
    if owner.state.name in _WITH_SLOTS and current_graph(m) is not None and any(_trained(one) for one in given):
        slot = _variable(m, name, (), [], {}, node)
        owner.state.created = (*owner.state.created, slot)
        given.append(slot)  # type: ignore[arg-type]
    made = m.tensor("tf", node, parents=given)
    place(m, made, given, node)
    return made


def _trained(loss: Tensor) -> bool:
    """Whether a loss was computed from a variable."""
    return any(one.state.variable for one in closure(loss.node))


CALLS: dict[str, Callable[..., Value]] = {
    "variable": _variable,
    "get_variable": _get_variable,
    "tape": _tape,
    "tensor_array": _tensor_array,
    "dataset": _dataset,
    "init_scope": _init_scope,
    "trainer": _trainer,
    "variables": tensorflow_graphs.variables,
    "placeholder": tensorflow_graphs.placeholder,
    **tensorflow_sessions.CALLS,
}


def keras_call(m: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """A function or class of Keras."""
    last = name.rpartition(".")[2]
    inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    if last == "Input":
        made = m.tensor("tf", node)
        made.flags = frozenset({"keras"})
        made.place = None
        return made
    if effect(name)[0] == "keras_op":
        for one in inputs:
            uses.use(m, one, node)
        made = m.tensor("tf", node, parents=inputs)
        if any("keras" in one.flags for one in inputs):
            made.flags = frozenset({"keras"})
        return made
    traced = any(t.framework == "tf" and t.kind == "function" for t in m.traces)
    surely = traced and not m.conditions and not m.ifs
    if surely and ".optimizers." in name and ".schedules." not in name and last[:1].isupper():
        m.world.variables_in_trace.append(m.spot(node))
    if ".layers." in name or last in ("Model", "Sequential"):
        layer = m.obj(name, node)
        if isinstance(label := best(kwargs.get("name", NONE)), Const) and label.value is not None:
            m.world.layers_by_name.setdefault(label.value, []).append(layer)
        layer.state.new_in_trace = surely and effect(name)[0] == "weights"
        return layer
    escapes.escape(m, [*args, *kwargs.values()], node)
    return m.unknown(node)


def call_object(m: Interpreter, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """Call a layer or model of Keras."""
    if not owner.family.startswith("keras"):
        return None
    inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    for one in inputs:
        uses.use(m, one, node)
    # The first call makes a layer's weights; a layer that outlives the trace has them then.
    if owner.state.new_in_trace and not owner.state.stored and owner.traces and owner.traces == m.traces:
        m.world.variables_in_trace.append(owner.born)
    made = m.tensor("tf", node, parents=inputs)
    made.state.several = True  # a model may have several outputs
    if any("keras" in one.flags for one in inputs):
        made.flags = frozenset({"keras"})
    elif owner.family == "keras.Model" and not m.traces:
        keras_fit.layers_run(m, node)
    return made


def object_attribute(m: Interpreter, owner: Obj, name: str, node: ast.AST) -> Value | None:
    """Attributes of graphs, sessions and iterators."""
    if owner.kind == "iterator" and name == "initializer":
        made = m.obj("initializer", node)
        made.state.iterators = [owner]
        return made
    if owner.kind == "session" and name == "graph":
        graph = owner.state.graph
        return graph if isinstance(graph, Obj) else m.unknown(node)
    return _keras_attribute(m, owner, name, node) if owner.family.startswith("keras") else None


def _keras_attribute(m: Interpreter, owner: Obj, name: str, node: ast.AST) -> Value | None:
    """`layer.output`, a symbol of the model; and the layers of one that was not written as a class."""
    if name == "layers" and owner.family == "keras.Model" and owner.cls is None:
        layers = m.seq("list", [], node)
        layers.rest = m.obj("keras.layers.Layer", node)
        return layers
    if name not in ("input", "output", "inputs", "outputs") or owner.cls is not None or m.traces:
        return None
    second = m.world.second_version and not m.world.may_turn_off
    if m.world.graph_mode or m.world.graphs or not (second or operations.third_keras(m)):
        return None  # there it is a tensor of the graph
    made = m.tensor("tf", node)
    made.flags, made.place = frozenset({"keras"}), None
    if not name.endswith("s"):
        return made
    several = m.seq("list", [], node)
    several.rest = made
    return several


def method(
    m: Interpreter, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of a TensorFlow tensor or variable."""
    if name == "numpy":
        _read(m, owner, node)
        return m.tensor("np", node)
    if "keras" in owner.flags and name in ("numpy", "eval"):
        m.add_fact(facts.KerasSymbolic(use=m.spot(node), birth=owner.born, how=f".{name}()"))
    if name in ("eval", "run") and (name == "eval" or owner.place is not None):
        return tensorflow_sessions.evaluated(m, owner, args, kwargs, node)
    if name in ("set_shape", "get_shape"):
        return Num()
    uses.use(m, owner, node)
    inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    if name.startswith("assign"):
        made = m.tensor("tf", node, parents=[owner])
        place(m, made, [], node)
        if current_graph(m) is None:
            return owner
        if name == "assign" and made.node is not None:
            made.node.state.assigns = owner
        return made
    if name in ("load", "initialized_value"):
        m.world.initialised_elsewhere = True
        return m.unknown(node)
    if name in ("read_value", "value"):
        return m.tensor("tf", node, parents=[owner])
    if owner.flags & {"assumed", "element of dataset"}:
        return m.unknown_of([owner, *inputs], node)  # perhaps it is a dict of tensors
    made = m.tensor("tf", node, parents=[owner, *inputs])
    made.trace = owner.trace or made.trace
    return made


def tensor_attribute(m: Interpreter, owner: Tensor, name: str, node: ast.AST) -> Value | None:
    """An attribute of a variable that means something to sessions."""
    if name not in ("initializer", "initial_value") or "variable" not in owner.flags:
        return None
    made = m.obj("initializer", node)
    made.state.variables = [owner]
    return made


def _read(m: Interpreter, owner: Tensor, node: ast.AST) -> None:
    if "variable" in owner.flags:
        return
    uses.read_as_number(m, owner, node, ".numpy()")
    if "keras" in owner.flags and not m.traces:
        m.add_fact(facts.KerasSymbolic(use=m.spot(node), birth=owner.born, how=".numpy()"))


def object_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """Methods of tapes, arrays, datasets, sessions and models."""
    if owner.kind == "tape":
        return _tape_method(m, owner, name, args, kwargs, node)
    if owner.kind == "tensor array":
        return tensor_arrays.method(m, owner, name, args, node)
    if owner.kind == "dataset":
        return _dataset_method(m, owner, name, args, kwargs, node)
    if owner.kind == "trainer":
        return _trainer_method(m, owner, name, args, node)
    found = tensorflow_sessions.object_method(m, owner, name, args, kwargs, node)
    if found is not None:
        return found
    if keras_fit.method(m, owner, name, args, kwargs, node):
        # Keras calls its callbacks, and reads nothing that they collect.
        escapes.escape(m, [*args, *(value for key, value in kwargs.items() if key != "callbacks")], node)
        return m.unknown(node)
    if owner.family.startswith("keras") and name == "get_layer":
        label = best(kwargs.get("name", args[0] if args else NONE))
        found_ = m.world.layers_by_name.get(label.value, []) if isinstance(label, Const) else []
        return found_[0] if len(found_) == 1 else m.obj("keras.layers.Layer", node)
    if owner.family.startswith("keras") and name == "add_weight":
        made = m.tensor("tf", node)
        made.trace, made.flags = None, frozenset({"variable"})
        return made
    return None


_VARIABLES = ("trainable_variables", "trainable_weights", "variables", "weights")


def _tape_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    for one in (part for arg in (*args, *kwargs.values()) for part in tensors(arg)):
        if "keras" in one.flags and not m.traces and current_graph(m) is None:
            m.add_fact(facts.KerasSymbolic(use=m.spot(node), birth=one.born, how=f"GradientTape.{name}"))
    if name in ("gradient", "jacobian", "batch_jacobian"):
        used = owner.state.used
        inside_ = owner in m.world.tapes
        if isinstance(used, Spot) and not owner.state.persistent and not inside_:
            m.add_fact(facts.TapeUsedAgain(use=m.spot(node), end=used, birth=owner.born))
        if not inside_:
            m.set_state(owner.state, "used", m.spot(node))
        ended = owner.state.closed_at
        for one in tensors(args[0]) if args else ():
            if (
                ended is not None
                and not m.traces
                and one.fw == "tf"
                and one.node is not None
                and one.node.state.at > ended
            ):
                m.add_fact(facts.OutsideTape(use=m.spot(node), birth=one.born, end=owner.born))
        sources = best(args[1]) if len(args) > 1 else best(kwargs.get("sources", NONE))
        parents = tensors(args[0]) if args else []
        given = node.args[1] if len(node.args) > 1 else None
        if isinstance(sources, Seq) or (isinstance(given, ast.Attribute) and given.attr in _VARIABLES):
            items = sources.items if isinstance(sources, Seq) else []
            group = m.seq("list", [m.tensor("tf", node, parents=parents) for _ in items], node)
            group.rest = m.tensor("tf", node, parents=parents) if not group.items else None
            return group
        return m.tensor("tf", node, parents=parents) if isinstance(sources, Tensor) and sources.fw else m.unknown(node)
    return NONE if name == "watch" else m.unknown(node)


def _dataset_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    made = m.obj("dataset", node)
    elements = owner.state.elements
    made.state.elements = elements if name != "apply" else None
    if name in ("map", "flat_map", "interleave", "filter") and args:
        trace = Trace("control flow", f"Dataset.{name}", "tf", m.spot(node))
        function = as_function(args[0])
        with tracing(m, trace):
            one = best(elements) if elements is not None else None
            count = len(function.node.args.args) - (function.bound is not None) if isinstance(function, Func) else 1
            items = one.items if isinstance(one, Seq) else [m.tensor("tf", node)] * max(count, 1)
            given: list[Value] = [symbols.assumed(m, trace, node) for _ in items]
            known = elements is not None  # otherwise each may be a dict of tensors
            for value in given:
                value.flags = frozenset() if known else frozenset({"element of dataset"})  # type: ignore[attr-defined]
            if isinstance(function, (Func, Wrapped)):
                m.call(function, given, {}, node)
        if name != "filter":
            made.state.elements = None
        return made
    if name == "get_next":
        return m.unknown(node)
    return made
