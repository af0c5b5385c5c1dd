"""A traced value that is used outside its trace: what the framework reports about it, and how it escaped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenure.explain import escapes
from tenure.explain.escapes import Escape
from tenure.explain.source import ends
from tenure.findings import Finding, Fix, Place

if TYPE_CHECKING:
    from tenure.explain.raised import Frame, Raised
    from tenure.faults.base import Fault

_TF = (
    r"is out of scope and cannot be used here"
    r"|defined in .{0,200}, which is out of scope"
    r"|An op outside of the function building code is being passed"
    r"|object has no attribute '_datatype_enum'"
    r"|The tensor .{0,200} cannot be accessed here: it is defined in another function or code block"
)
_TF_KINDS = ("TypeError", "InaccessibleTensorError", "AttributeError", "ValueError", "OperatorNotAllowedInGraphError")
# A symbolic tensor whose value is asked for.
SYMBOLIC = (
    r"'(?:SymbolicTensor|Tensor)' object has no attribute '(?:numpy|item|tolist)'"
    r"|Cannot convert a symbolic (?:tf\.)?Tensor"
    r"|Using a symbolic `?tf\.Tensor`? as a Python|using a `tf\.Tensor` as a Python `bool` is not allowed"
    r"|Iterating over a symbolic `?tf\.Tensor`?|iterating over `tf\.Tensor` is not allowed"
    r"|numpy\(\) is only available when eager execution is enabled|Tensor\.numpy\(\) is not supported in graph mode"
    r"|(?:float|int|complex)\(\) argument must be .* not '(?:Symbolic)?Tensor'"
    r"|'(?:SymbolicTensor|Tensor)' object cannot be interpreted as an integer"
)
# A tracer of an inner trace that is a constant of the outer one: JAX notices it when it compiles.
_LOWERED = r"No constant handler for type: <class '[\w.]*Tracer'>"
# A tracer that is formatted as a number.
FORMATTED = r"passed to \w*Tracer\.__format__"
_GRAPH = re.compile(
    r"defined in (?:another )?(?:function or code block|FuncGraph\(name=(?P<name>[^,)]+)|(?P<other>[^,\n]+))"
)
_NAME = re.compile(r"<tf\.Tensor '(?P<name>[^']+)'|Tensor\(\"(?P<old>[^\"]+)\"")
_JAX_OF = re.compile(r"an intermediate value with type (?P<type>\S+) wrapped in an? (?P<tracer>\w+)")
_JAX_BY = re.compile(r"when the value leaked was (?P<function>[^\n]+?) at [^\n]+? traced for (?P<kind>[\w ]+?)\.")
_CONVERTED = re.compile(
    r"while tracing the function (?P<function>\S+) at (?P<file>.+?):(?P<line>\d+) for (?P<kind>\w+)"
)
_READS = (
    "TracerArrayConversionError", "TracerBoolConversionError", "TracerIntegerConversionError",
    "ConcretizationTypeError", "NonConcreteBooleanIndexError",
)  # fmt: skip
# Names of TensorFlow's graphs and JAX's primitives for bodies of control flow.
_BODIES = (
    (r"cond_(?:true|false)|_branch|switch_case|^case_|\bif_", "a branch"),
    (r"while|for_?loop|map_fn|\bscan\b|foldl|foldr", "a loop body"),
    (r"Dataset_|dataset", "a Dataset function"),
)
_JAX_BODIES = {
    "cond": "a branch of lax.cond", "switch": "a branch of lax.switch", "scan": "the body of lax.scan",
    "while_loop": "the body of lax.while_loop", "while_body": "the body of lax.while_loop",
    "while_cond": "the condition of lax.while_loop", "fori_loop": "the body of lax.fori_loop",
    "map": "the body of lax.map", "associative_scan": "the body of lax.associative_scan",
    "custom_root": "lax.custom_root", "custom_linear_solve": "lax.custom_linear_solve",
}  # fmt: skip
_TRANSFORMS = (
    "jit", "pjit", "grad", "value_and_grad", "vmap", "pmap", "jvp", "vjp", "linearize", "jacfwd", "jacrev",
    "jacobian", "hessian", "checkpoint", "remat", "shard_map", "xmap", "make_jaxpr", "eval_shape", "custom_jvp",
    "custom_vjp", "scan", "while_loop", "fori_loop", "cond", "switch", "map", "associative_scan", "filter_jit",
    "filter_grad", "filter_value_and_grad", "filter_vmap", "pallas_call",
    "tf.function", "function", "map_fn", "filter", "flat_map", "interleave", "py_function", "vectorized_map", "scan",
)  # fmt: skip


@dataclass(frozen=True)
class Leak:
    """A symbolic value that escaped: `function` is the traced function, `construct` the control flow, if it was one."""

    raised: Raised
    framework: str
    what: str
    function: str
    construct: str
    escape: Escape | None
    certain: bool = True

    def finding(self, fault: Fault) -> Finding:
        """Return the leak as a finding of one of the rules that it can match."""
        return fault.finding(
            f"{self.what} was created {self._where()} but is used outside it",
            self._places(),
            reason=self._reason(),
            fix=self._fix(),
            certain=self.certain,
            evidence={"framework": self.framework, "traced": self.function} if self.function else None,
        )

    def _where(self) -> str:
        named = self.function and not self.function.startswith("<")
        if self.construct:
            return f"in {self.construct} (`{self.function}`)" if named else f"in {self.construct}"
        if named:
            return f"in the trace of `{self.function}`"
        return "inside a JAX transformation" if self.framework == "jax" else "in the trace of a tf.function"

    def _places(self) -> list[Place]:
        found = self.raised.places("birth", self.raised.born)
        if self.escape is not None:
            found.append(self.escape.place)
        return [*found, *self.raised.use]

    def _reason(self) -> str:
        kept = ""
        if self.escape is not None:
            target = f"`{self.escape.target}`"
            kept = f" {target} stored one of them."
            kept = f" The cache of {target} stored one of them." if self.escape.how == "cache" else kept
        if self.framework == "jax":
            return (
                "A JAX transformation runs the function once, to record its operations. Its values are tracers, which are "
                f"valid only during that trace.{kept}"
            )
        return (
            "TensorFlow runs the Python code of a tf.function only while it traces it. The values there are symbolic and "
            f"valid only in that trace.{kept} An eager tensor would outlive its function, but this one never had a value."
        )

    def _fix(self) -> Fix:
        jax = self.framework == "jax"
        escape = self.escape
        if escape is not None and escape.is_cache:
            outside = "with numpy (np.…)" if jax else "with numpy, or inside `with tf.init_scope():`"
            return Fix(
                f"create the value that `{escape.target}` caches {outside}, so that the cache contains numbers, not traced values"
            )
        kept = f" instead of storing it in `{escape.target}`" if escape is not None else ""
        if self.construct:
            return Fix(f"return the value from the body (from every branch) and take it from the result{kept}")
        aux = " (grad and value_and_grad: has_aux=True)" if jax and not self.function else ""
        state = (
            "; pass state that must persist across calls as an argument, and return it"
            if jax
            else "; keep state that must persist across calls in a tf.Variable, and change it with assign()"
        )
        return Fix(f"return the value from the traced function{aux}{kept}, and use what the call returns{state}")


def find(raised: Raised) -> Leak | None:
    """Return the leak that caused an exception, or None."""
    return _tensorflow(raised) or _jax(raised)


def _tensorflow(raised: Raised) -> Leak | None:
    if not raised.says(_TF, *_TF_KINDS):
        return _symbolic(raised)
    graph = _GRAPH.search(raised.message)
    name = (graph["name"] or graph["other"] or "") if graph else ""
    said = _NAME.search(raised.message)
    tensor = f"tensor `{said['name'] or said['old']}`" if said else "a symbolic tensor"
    construct = next((what for pattern, what in _BODIES if re.search(pattern, name)), "")
    stack = raised.born
    function = name
    if construct and stack:
        function = stack[-1].name
    elif stack and not any(frame.name == name for frame in stack):
        function = next(
            (frame.name for frame in stack if frame.name != "<module>"), name
        )  # Keras wraps the user's step
    return Leak(raised, "tensorflow", tensor, function, construct, raised.escape(stack), certain=bool(stack))


def _symbolic(raised: Raised) -> Leak | None:
    """A symbolic tensor is read as a number by code that is not being traced: it escaped earlier."""
    if not raised.says(SYMBOLIC) or raised.reads_symbol:
        return None
    escape = raised.escape()
    return (
        Leak(raised, "tensorflow", "a symbolic tensor", "", "", escape, certain=False) if escape is not None else None
    )


def _jax(raised: Raised) -> Leak | None:
    if raised.says(r"Encountered an unexpected tracer|racer.{0,40}(?:escaped|leaked)"):
        of = _JAX_OF.search(raised.message)
        what = f"a {of['type']} tracer" if of else "a tracer"
        by = _JAX_BY.search(raised.message)
        kind = by["kind"] if by else ""
        construct = _JAX_BODIES.get(kind, "")
        function = by["function"].rpartition(".")[2] if by else ""
        return Leak(raised, "jax", what, function, construct, raised.escape(raised.born), certain=bool(raised.born))
    if raised.says(_LOWERED, "TypeError"):
        kept = raised.escape() or escapes.only_one_read_elsewhere(raised)
        return None if kept is None else Leak(raised, "jax", "a tracer", "", "", kept, certain=False)
    if raised.says(r"^Leaked (?:trace|level|sublevel)\b"):  # jax.checking_leaks
        traced = _CONVERTED.search(raised.message)
        construct = _JAX_BODIES.get(traced["kind"], "") if traced else ""
        name = traced["function"] if traced else ""
        return Leak(raised, "jax", "a tracer", name, construct, _escape(raised, traced), certain=True)
    if (raised.kind in _READS and "racer" in raised.message) or raised.says(FORMATTED, "TypeError"):
        return _read_outside(raised)
    return None


def _read_outside(raised: Raised) -> Leak | None:
    """A tracer is read as a number outside any trace: it escaped earlier."""
    traced = _CONVERTED.search(raised.message)
    if traced:
        name = traced["function"].rpartition(".")[2]
        if any(frame.name == name for frame in raised.user) or raised.here is None:
            return None
    elif is_traced(raised):
        return None
    escape = _escape(raised, traced)
    if escape is None:
        return None
    construct = _JAX_BODIES.get(traced["kind"], "") if traced else ""
    function = traced["function"] if traced else ""
    return Leak(raised, "jax", "a tracer", function, construct, escape, certain=False)


def _escape(raised: Raised, traced: re.Match[str] | None) -> Escape | None:
    """Return how it escaped: from the function that the message names, if it names one."""
    from tenure.explain.raised import Frame

    if traced is None:
        return raised.escape()
    return raised.escape((Frame(traced["file"], int(traced["line"]), traced["function"]),)) or raised.escape()


def is_traced(raised: Raised) -> bool:
    """Return whether one of the user's frames is a traced function, as far as decorators and calls show."""
    frames = [frame for frame in raised.user if frame.name != "<module>"]
    if any(frame.name == "<lambda>" for frame in frames):
        return True
    return any(_is_transformed(raised, frame) for frame in frames)


def _is_transformed(raised: Raised, frame: Frame) -> bool:
    for source in raised.sources:
        for function in source.named(frame.name):
            if any(_mentions(decorator) for decorator in function.decorator_list):
                return True
        for call in source.calls(*_TRANSFORMS):
            from tenure.explain.source import names_in

            if any(frame.name in names_in(argument) for argument in (*call.args, *(k.value for k in call.keywords))):
                return True
    return False


def _mentions(decorator: object) -> bool:
    import ast

    return any(
        isinstance(part, ast.Attribute | ast.Name) and ends(getattr(part, "attr", getattr(part, "id", "")), _TRANSFORMS)
        for part in ast.walk(decorator)  # type: ignore[arg-type]
    )
