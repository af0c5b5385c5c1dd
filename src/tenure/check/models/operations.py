"""Operations: the tensors that functions of libraries make of others."""

from __future__ import annotations

import ast
import re
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Framework, Map, Num, Obj, Seq, Tensor, Value
from tenure.check.lifetimes import graphs, random_numbers, retracing, tensor_slices, uses, writes
from tenure.check.models import tensorflow_graphs
from tenure.check.value_queries import best, inside, tensors


def operation(
    m: Interpreter,
    name: str,
    fw: Framework,
    words: tuple[str, ...],
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST,
) -> Value:
    """The result of a function that makes tensors, as its line in the tables says."""
    given = [*args, *kwargs.values()]
    inputs = [one for value in given for one in tensors(value)]
    for value in given:
        if isinstance(value, (Seq, Map)):
            for one in tensors(value):
                one.state.taken = True
    for one in inputs:
        uses.use(m, one, node)
        if one.state.unfilled is not None:
            uses.unfilled(m, one, node)
        if fw == "tf" and "keras" in one.flags and third_keras(m):
            m.add_fact(facts.KerasSymbolic(use=m.spot(node), birth=one.born, how=name))
    last = name.rpartition(".")[2]
    if fw == "torch" and isinstance(into := best(kwargs.get("out", NONE)), Tensor):
        writes.written(m, into, node, f"{last}(out=…)", [])
        return into
    if fw == "jax" and last in ("zeros", "ones", "empty", "full", "eye", "arange") and args:
        for part in inside(args[0]):
            uses.read_as_number(m, part, node, f"the shape of jnp.{last}")
    if last == "psum" and args and isinstance(best(args[0]), (Num, Const)):
        return Num()  # the size of an axis, known while the function is traced
    if words[0] == "fresh":
        made = m.tensor(fw, node, graph=False)
        if fw == "torch":
            made.varies = any(isinstance(v, Num) and v.varies for value in given for v in inside(value))
        if fw == "torch" and last in ("randn", "rand", "zeros", "ones", "empty", "full"):
            tensor_slices.has_rows(made, args)
        grown = retracing.sized(fw, name, args, kwargs) or retracing.joined(m, name, args)
        made.varies = made.varies or (fw != "torch" and grown)
        wants = kwargs.get("requires_grad")
        made.leaf = isinstance(wants, Const) and wants.value is True
        if made.leaf:
            made.state.asked = made.born
        return _placed(m, made, inputs, node)
    if words[0] == "alias":
        source = best(args[0]) if args else NONE
        store = source.store if isinstance(source, Tensor) else source.state.store if isinstance(source, Obj) else None
        if isinstance(source, Tensor) and source.fw == fw and fw == "jax" and last == "asarray":
            return source
        made = m.tensor(
            fw, node, store=store, parents=[source] if isinstance(source, Tensor) and source.fw == "torch" else []
        )
        made.varies = fw != "torch" and retracing.joined(m, name, args)
        if store is not None and isinstance(source, (Tensor, Obj)):
            store.state.shared = store.state.shared or m.spot(node)
        return made
    if fw == "torch" and inputs and graphs.flag(kwargs.get("inplace")):
        writes.written(m, inputs[0], node, f"{last}(inplace=True)", [])
        return result(m, fw, inputs, node, last, store=inputs[0].store)
    share = inputs[0].store if inputs and ("view" in words or "part" in words) else None
    made = result(m, fw, inputs, node, last, store=share, view="part" in words)
    made.varies = (fw != "torch" and retracing.sized(fw, name, args, kwargs)) or (made.varies and last not in _REDUCES)
    made.varies = made.varies or (fw != "torch" and retracing.joined(m, name, args))
    if fw != "torch" and last in _TO_ONE and len(args) == 1 and not kwargs.keys() & {"axis", "keepdims"}:
        made.flags |= {"scalar"}
    if words[0] == "several":
        group = m.seq("tuple", [], node)
        group.rest = made
        return group
    if words[0] == "pair":
        return m.seq("tuple", [m.unknown(node), m.unknown(node)], node)
    return made


# One number, or as many as there are columns, of however many rows.
_REDUCES = frozenset(["sum", "mean", "max", "min", "prod", "norm", "reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
                      "pad", "resize", "where", "dot", "vdot", "einsum", "matmul", "segment_sum"])  # fmt: skip

_TO_ONE = frozenset(["sum", "mean", "max", "min", "prod", "std", "var", "median", "norm", "global_norm", "reduce_sum",
                     "reduce_mean", "reduce_max", "reduce_min", "reduce_std", "nanmean"])  # fmt: skip

_THIRD = re.compile(r"^\s*(?:import keras\b|from keras import|from keras\.(?:ops|random|saving)\b)", re.MULTILINE)
_EARLIER = re.compile(r"keras\.backend|keras\.engine|np_utils|tf_keras|TF_USE_LEGACY_KERAS|fit_generator")


def third_keras(m: Interpreter) -> bool:
    """Whether a program is surely for Keras 3, whose symbolic tensors TensorFlow's functions reject; Keras 2 took them."""
    text = m.main.text if m.main is not None else ""
    return bool(_THIRD.search(text)) and not _EARLIER.search(text)


def _placed(m: Interpreter, made: Tensor, inputs: list[Tensor], node: ast.AST) -> Tensor:
    if made.fw == "tf":
        tensorflow_graphs.place(m, made, inputs, node)
    _scoped(m, made)
    return made


def _scoped(m: Interpreter, made: Tensor) -> None:
    scopes = m.world.scopes
    if scopes:
        scopes[-1][1].append(made)


def result(
    m: Interpreter, fw: Framework | None, inputs: list[Tensor], node: ast.AST, op: str, *, saves: str = "", store: Any = None,
    view: bool = False,
) -> Tensor:  # fmt: skip
    """The tensor that an operation makes of others."""
    fw = fw or "torch"
    made = m.tensor(fw, node, op=op, parents=inputs, store=store, view=view)
    for one in inputs:
        if one.trace is not None and one.trace in m.traces and made.trace is None:
            made.trace = one.trace
        if "keras" in one.flags:
            made.flags |= {"keras"}
    if inputs and all("scalar" in one.flags for one in inputs):
        made.flags |= {"scalar"}
    if fw == "np" and inputs and all("perhaps number" in one.flags for one in inputs):
        made.flags |= {"perhaps number"}
    random_numbers.computed(made, inputs)
    if fw == "torch":
        _mixed_with_inference(m, made, inputs, node)
        graphs.save(m, made, inputs, op, saves)
    return _placed(m, made, inputs, node)


def _mixed_with_inference(m: Interpreter, made: Tensor, inputs: list[Tensor], node: ast.AST) -> None:
    if m.grad[-1] != "grad" or not made.graph:
        return
    for one in inputs:
        if "inference" in one.flags and any(o.graph or o.leaf for o in inputs if o is not one):
            m.add_fact(facts.InferenceInAutograd(use=m.spot(node), birth=one.born))
