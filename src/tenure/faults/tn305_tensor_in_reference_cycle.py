"""A reference cycle keeps tensors until the garbage collector runs, or for ever.

Python frees an object with its last reference. What refers to itself in a circle waits for the garbage collector, which
comes when many objects were made, and knows nothing of the megabytes behind a tensor. Some circles it never finds:
those that pass through autograd's own memory, such as a hook that closes over the tensor it is registered on.

Wrong:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.activate = self.relu              # a bound method holds self
            y.register_hook(lambda g: g * y)       # y holds the hook, the hook y

Right:

    self.activation = "relu"                       # look the method up when it is needed
    scale = float(y.detach().norm())
    y.register_hook(lambda g: g * scale)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.check.facts import Found
    from tenure.findings import Finding

FAULT = Fault("TN305", "tensor-in-reference-cycle", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """What grew waits in reference cycles for the garbage collector."""
    if leak.holder is None or leak.holder.kind != "cycle":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{leak.amount} waited for the garbage collector: a reference cycle goes through them",
        Fix(
            "break the cycle: store a name and look the method up, use weakref.ref(self) in hooks and closures, "
            "or let the hook close over a number instead of its own tensor"
        ),
        "What refers to itself is not freed by its last outside reference. The collector comes when many objects were made, "
        "not when much memory is used; and a cycle through autograd's own memory it cannot see at all.",
    )


_HELD = {
    "hook": "a hook that refers to it",
    "bound method": "a bound method of its own",
    "closure": "a function that closes over it",
    "object": "an object that refers back to it",
}


def in_source(found: Found) -> Iterator[Finding]:
    """A module or tensor refers to itself."""
    for seen in found.of("tensor hook cycle"):
        yield FAULT.finding(
            "this hook refers to the tensor it is registered on",
            seen.places(),
            reason="Tensor and hook keep each other. The collector cannot see through the graph between them.",
            fix=Fix("let the hook hold a number, or a detached tensor"),
        )
    for seen in found.of("cycle"):
        what = _HELD[seen.data["how"]]
        yield FAULT.finding(
            f"each of these objects holds {what}, so none ends before the garbage collector runs",
            seen.places(),
            reason="What is in a reference cycle keeps its tensors until then.",
            fix=Fix("look the method up where it is called; hook with a weak reference"),
        )
