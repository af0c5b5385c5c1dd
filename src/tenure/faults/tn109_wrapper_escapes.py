"""A functorch wrapper or a fake tensor is used after the transformation that created it.

## What it means

PyTorch raises RuntimeError, "your tensor may have escaped from inside a function being vmapped", TypeError
about SymFloat, or AssertionError about FakeTensors.

Inside torch.vmap, a tensor is a wrapper for one sample. Under torch.export, torch.compile and FakeTensorMode,
a tensor is fake and has no data. A list, a cache or an attribute can keep it after the call.

## Why it hurts

Outside the call the wrapper is not valid, and the fake tensor has no data. Using it fails, far from the line
that stored it.

## Example

    import torch

    kept = []

    def one(row):
        kept.append(row * 2)
        return row.sum()

    torch.vmap(one)(torch.ones(3, 4))
    print(kept[0] + 1)

## Use instead

    import torch

    def one(row):
        return row.sum(), row * 2

    total, kept = torch.vmap(one)(torch.ones(3, 4))
    print(kept[0] + 1)

## How to be sure

Print the stored tensor: a wrapper prints as `BatchedTensor(...)`, a fake tensor as `FakeTensor(...)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN109", "wrapper-escapes", __doc__, labels={"end": "traced here"})

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
# During the export or compilation itself, these messages concern the program, not an escaped tensor.
_COMPILING = ("torch/export/", "torch/_export/", "torch/_dynamo/convert_frame", "torch/_inductor/compile_fx")


def in_exception(raised: Raised) -> Finding | None:
    """A tensor of vmap, torch.export, torch.compile or FakeTensorMode was stored and is used outside."""
    kind = "vmap" if raised.says(_VMAP, "RuntimeError", "ValueError") or _is_outside(raised) else ""
    if not kind and (raised.says(_FAKE, *_KINDS) or _is_read(raised)):
        inside = any(part in frame.file.replace("\\", "/") for frame in raised.frames for part in _COMPILING)
        kind = "" if inside else "fake"
    if not kind:
        return None
    escape = raised.escape()
    made = raised.calls("birth", *(("vmap",) if kind == "vmap" else ("export", "FakeTensorMode", "make_fx")))
    return FAULT.finding(
        "a tensor from inside torch.vmap is used outside the vmapped function"
        if kind == "vmap"
        else "a FakeTensor, which has no data, is used outside torch.export or torch.compile",
        [*([escape.place] if escape else []), *made[:1], *raised.use],
        reason=(
            "Inside vmap, a tensor is a wrapper for one sample of the batch. It is valid only during the call of vmap."
            if kind == "vmap"
            else "torch.export and torch.compile run the Python code on fake tensors. A tensor that this code stores in a global, "
            "a cache or an attribute stays fake."
        )
        + (f" `{escape.target}` stored one." if escape else ""),
        fix=Fix(
            "return the value from the vmapped function, and use the result of vmap"
            if kind == "vmap"
            else "fill the cache before exporting, store nothing while `torch.compiler.is_compiling()`, or register the tensor as a buffer"
        ),
        certain=escape is None,
    )


def _is_outside(raised: Raised) -> bool:
    """vmap rejects item() and `if` on its wrappers; if no vmapped function is running, the wrapper escaped."""
    said = raised.says(r"^vmap: It looks like you're", "RuntimeError")
    return bool(said) and not raised.is_traced and raised.escape() is not None


def _is_read(raised: Raised) -> bool:
    """NumPy read the data of a fake tensor: torch's message only calls it a subclass."""
    said = raised.says(r"not supported for tensor subclasses", "RuntimeError")
    return bool(said) and bool(raised.mentions("FakeTensorMode", "export", "make_fx"))


def in_source(found: Found) -> Iterator[Finding]:
    """A wrapper of a transformation is stored outside it."""
    for fact in found.of(facts.Escape):
        if fact.trace == "wrapper":
            how, holder = fact.how, fact.kept_in
            yield FAULT.finding(
                f"a tensor that is valid only inside {how} is stored in {holder}",
                fact.places(),
                reason="The tensor is a wrapper of the transformation. Afterwards it has no data, or using it raises an error.",
                fix=Fix("return it from the transformed function"),
                evidence={"wrapped by": how, "kept in": holder},
            )
