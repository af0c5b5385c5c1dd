"""Grad mode was set in one thread and relied on in another.

What happens: RuntimeError "Can't call numpy() on Tensor that requires grad" or "a leaf Variable that requires grad is
being used in an in-place operation", in a thread only; or graphs that nobody wanted.

Why: no_grad(), inference_mode() and set_grad_enabled() hold for the thread that calls them. A new thread begins with
gradients on.

Wrong:

    import torch
    from concurrent.futures import ThreadPoolExecutor

    layer = torch.nn.Linear(2, 1)

    def predict(x):
        return layer(x).numpy()

    with torch.no_grad(), ThreadPoolExecutor(1) as pool:
        print(list(pool.map(predict, [torch.ones(2)])))

Right:

    import torch
    from concurrent.futures import ThreadPoolExecutor

    layer = torch.nn.Linear(2, 1)

    @torch.no_grad()
    def predict(x):
        return layer(x).numpy()

    with ThreadPoolExecutor(1) as pool:
        print(list(pool.map(predict, [torch.ones(2)])))
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

FAULT = Fault("TN216", "grad-mode-other-thread", __doc__)

_SAYS = (
    r"Can't call numpy\(\) on Tensor that requires grad|leaf Variable that requires grad is being used in an in-place"
    r"|Only Tensors created explicitly by the user .*support the deepcopy|Inplace update to inference tensor outside InferenceMode"
    r"|does not require grad and does not have a grad_fn|that requires grad to a|Inference tensors cannot be saved for backward"
)


def in_exception(raised: Raised) -> Finding | None:
    """Grad mode was set in one thread and counted on in another."""
    if not raised.says(_SAYS, "RuntimeError"):
        return None
    if not any(
        frame.file.replace("\\", "/").endswith(("/threading.py", "futures/thread.py")) for frame in raised.stack
    ):
        return None
    modes = [
        place
        for place in raised.mentions("no_grad", "set_grad_enabled", "inference_mode", "enable_grad")
        if place.function not in {frame.name for frame in raised.user if frame.name != "<module>"}
    ]
    if not modes:
        return None
    return FAULT.finding(
        "grad mode is the thread's own: what was set in the thread that started this one does not hold here",
        [*modes[:1], *raised.use],
        reason="no_grad(), inference_mode() and set_grad_enabled() hold for the thread that calls them. A new thread begins with "
        "gradients on.",
        fix=Fix("enter torch.no_grad() (or inference_mode()) inside the function that the thread runs"),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A thread is started under no_grad, and records a graph."""
    for seen in found.of("grad mode lost"):
        yield FAULT.finding(
            f"this runs in another thread, where {seen.data['mode']} of this one does not hold",
            seen.places(),
            reason="Grad mode belongs to a thread. The other one records a graph.",
            fix=Fix("enter torch.no_grad() inside the function that the thread runs"),
        )
