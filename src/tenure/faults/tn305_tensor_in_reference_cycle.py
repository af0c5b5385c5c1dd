"""A reference cycle keeps tensors allocated until the garbage collector runs, or forever.

## What it means

Python frees an object when its last reference is gone. Objects in a reference cycle wait for the garbage
collector, which runs after a number of new objects, however large their tensors are. It never frees cycles
that pass through autograd's C++ objects, such as a hook that closes over its own tensor.

## Why it hurts

Models and activations of earlier iterations are still allocated while new ones are created, so peak memory is
higher, at times that seem random.

## Example

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.activate = self.relu              # a bound method references self
            y.register_hook(lambda g: g * y)       # y references the hook, the hook references y

## Use instead

    self.activation = "relu"                       # look the method up when it is needed
    scale = float(y.detach().norm())
    y.register_hook(lambda g: g * scale)

## How to be sure

Delete the object, then call `gc.collect()`. If memory drops only at gc.collect(), a reference cycle kept it.
If it does not drop at all, look for a tensor hook.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.findings import Finding

FAULT = Fault("TN305", "tensor-in-reference-cycle", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """The tensors are in reference cycles and wait for the garbage collector."""
    if leak.holder is None or leak.holder.kind != "cycle":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{leak.amount} are in a reference cycle and stay allocated until the garbage collector runs",
        Fix(
            "break the cycle: store the method's name instead of the bound method, use `weakref.ref(self)` in hooks and "
            "closures, or let the hook close over a number instead of its own tensor"
        ),
        "Python cannot free a cycle by reference counting. The garbage collector runs after a number of new objects, "
        "however large their tensors are. It cannot see a cycle that passes through autograd's C++ objects.",
    )


_HELD = {
    "hook": "stores a hook that references it",
    "bound method": "stores one of its own bound methods",
    "closure": "stores a function that closes over it",
    "object": "stores an object that references it",
}


def in_source(found: Found) -> Iterator[Finding]:
    """A module or tensor references itself."""
    for tensor_hook_cycle in found.of(facts.TensorHookCycle):
        yield FAULT.finding(
            "this hook references the tensor that it is registered on",
            tensor_hook_cycle.places(),
            reason="The tensor keeps the hook alive, and the hook the tensor. The garbage collector cannot see this cycle, because it "
            "passes through the autograd graph.",
            fix=Fix("let the hook close over a number or a detached tensor"),
            labels={"holder": "hook registered here"},
        )
    for output_on_context in found.of(facts.OutputOnContext):
        yield FAULT.finding(
            "this output of an autograd function is an attribute of its own ctx",
            output_on_context.places(),
            reason="The output references its step of the graph, the step references ctx, and ctx the output. Without a backward "
            "pass that removes the attribute, nothing frees them.",
            fix=Fix("call `ctx.save_for_backward(…)` with the output, and read it from `ctx.saved_tensors`"),
        )
    for reference_cycle in found.of(facts.ReferenceCycle):
        what = _HELD[reference_cycle.how]
        yield FAULT.finding(
            f"this object {what}: only the garbage collector can free them",
            reference_cycle.places(),
            reason="Objects in a reference cycle, and their tensors, are not freed when the last outside reference is gone.",
            fix=Fix("look the method up where it is called, or use `weakref.ref(self)` in the hook or closure"),
        )
