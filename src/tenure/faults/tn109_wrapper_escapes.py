"""A functorch or fake tensor outlives the transformation that wrapped it.

What happens: RuntimeError "your tensor may have escaped from inside a function being vmapped"; TypeError about
SymFloat; AssertionError about FakeTensors.

Why: Inside torch.vmap a tensor is a wrapper for one sample; under torch.export, torch.compile and FakeTensorMode it is
a fake one without data. Kept in a list, a cache or an attribute, it outlives the call that gave it a meaning.

Wrong:

    import torch

    kept = []

    def one(row):
        kept.append(row * 2)
        return row.sum()

    torch.vmap(one)(torch.ones(3, 4))
    print(kept[0] + 1)

Right:

    import torch

    def one(row):
        return row.sum(), row * 2

    total, kept = torch.vmap(one)(torch.ones(3, 4))
    print(kept[0] + 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN109", "wrapper-escapes", __doc__)

_VMAP = (
    r"escaped from inside a function being vmapped|tensor may have escaped"
    r"|(?:BatchedTensorImpl|BatchRules|functorch|TensorWrapper|DynamicLayer).*INTERNAL ASSERT|INTERNAL ASSERT.*(?:Batched|functorch|TensorWrapper|DynamicLayer)"
    r"|maybeCurrentDynamicLayer|at::functorch|dead (?:TensorWrapper|wrapper)|GradTrackingTensor.*no longer"
    r"|Cannot access data pointer of Tensor that doesn't have storage"
)
_FAKE = (
    r"SymFloat|SymInt(?!eger)|SymBool|FakeTensor|[Ff]ake [Mm]ode|fake tensors?\b|FunctionalTensor"
    r"|Could not (?:guard on|extract specialized).*data-dependent|data-dependent expression"
    r"|mixed fake and real tensors|with symbolic sizes/strides|aten\._local_scalar_dense"
)
_KINDS = (
    "TypeError", "AssertionError", "RuntimeError", "ValueError", "DataDependentOutputException",
    "GuardOnDataDependentSymNode", "DynamicOutputShapeException", "UnsupportedFakeTensorException",
)  # fmt: skip
# While exporting or compiling itself, such words are about the program, not about a tensor that got out.
_COMPILING = ("torch/export/", "torch/_export/", "torch/_dynamo/convert_frame", "torch/_inductor/compile_fx")


def in_exception(raised: Raised) -> Finding | None:
    """A tensor of vmap, torch.export, torch.compile or FakeTensorMode that was kept and used outside."""
    kind = "vmap" if raised.says(_VMAP, "RuntimeError", "ValueError") or _is_outside(raised) else ""
    if not kind and (raised.says(_FAKE, *_KINDS) or _is_read(raised)):
        inside = any(part in frame.file.replace("\\", "/") for frame in raised.frames for part in _COMPILING)
        kind = "" if inside else "fake"
    if not kind:
        return None
    escape = raised.escape()
    made = raised.calls("birth", *(("vmap",) if kind == "vmap" else ("export", "FakeTensorMode", "make_fx")))
    return FAULT.finding(
        "a tensor from inside torch.vmap got out of the vmapped function and is used outside of it"
        if kind == "vmap"
        else "a FakeTensor, which has a shape and no data, got out of torch.export or torch.compile",
        [*([escape.place] if escape else []), *made[:1], *raised.use],
        reason=(
            "Inside vmap a tensor is a wrapper that stands for one sample of the batch. It ends with the call of vmap."
            if kind == "vmap"
            else "torch.export and torch.compile run the Python code on fake tensors. What that code keeps in a global, a cache "
            "or an attribute is fake too, and stays so."
        )
        + (f" `{escape.target}` kept one." if escape else ""),
        fix=Fix(
            "return the value from the function that is vmapped, and use what vmap returns"
            if kind == "vmap"
            else "fill the cache before exporting, keep nothing while torch.compiler.is_compiling(), or register the tensor as a buffer"
        ),
        certain=escape is None,
    )


def _is_outside(raised: Raised) -> bool:
    """vmap refuses item() and `if` on its wrappers; where no vmapped function is running, the wrapper had got out."""
    said = raised.says(r"^vmap: It looks like you're", "RuntimeError")
    return bool(said) and not raised.is_traced and raised.escape() is not None


def _is_read(raised: Raised) -> bool:
    """NumPy asked a fake tensor for its data: torch only says that it is a subclass."""
    said = raised.says(r"not supported for tensor subclasses", "RuntimeError")
    return bool(said) and bool(raised.mentions("FakeTensorMode", "export", "make_fx"))


def in_source(found: Found) -> Iterator[Finding]:
    """A wrapper of a transformation is left outside of it."""
    for seen in found.of("escape"):
        if seen.data["trace"] == "wrapper":
            how, holder = seen.data["how"], seen.data["holder"]
            yield FAULT.finding(
                f"a tensor that exists only inside {how} is left in {holder}",
                seen.places(),
                reason="Such a tensor is a wrapper of the transformation. Used after it, it raises, or holds no data.",
                fix=Fix("return it from the transformed function"),
                evidence={"wrapped by": how, "kept in": holder},
            )
