"""Grad mode is set in one thread, but the code runs in another.

## What it means

PyTorch raises RuntimeError, "Can't call numpy() on Tensor that requires grad" or "a leaf Variable that
requires grad is being used in an in-place operation", only in a thread. Or nothing fails, but the thread
records unwanted graphs.

no_grad(), inference_mode() and set_grad_enabled() apply only to the thread that calls them. A new thread
starts with gradients enabled.

## Why it hurts

The thread fails, or it records graphs that nothing uses: more memory and more time.

## Example

    import torch
    from concurrent.futures import ThreadPoolExecutor

    layer = torch.nn.Linear(2, 1)

    def predict(x):
        return layer(x).numpy()

    with torch.no_grad(), ThreadPoolExecutor(1) as pool:
        print(list(pool.map(predict, [torch.ones(2)])))

## Use instead

    import torch
    from concurrent.futures import ThreadPoolExecutor

    layer = torch.nn.Linear(2, 1)

    @torch.no_grad()
    def predict(x):
        return layer(x).numpy()

    with ThreadPoolExecutor(1) as pool:
        print(list(pool.map(predict, [torch.ones(2)])))

## How to be sure

Print `torch.is_grad_enabled()` in the function that the thread runs: it is True.
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

FAULT = Fault("TN216", "grad-mode-other-thread", __doc__)

_SAYS = (
    r"Can't call numpy\(\) on Tensor that requires grad|leaf Variable that requires grad is being used in an in-place"
    r"|Only Tensors created explicitly by the user .*support the deepcopy|Inplace update to inference tensor outside InferenceMode"
    r"|does not require grad and does not have a grad_fn|that requires grad to a|Inference tensors cannot be saved for backward"
)
_THREADS = ("/threading.py", "futures/thread.py")


def in_exception(raised: Raised) -> Finding | None:
    """Grad mode was set in one thread but is expected in another."""
    if not raised.says(_SAYS, "RuntimeError"):
        return None
    threads = [at for at, frame in enumerate(raised.stack) if frame.file.replace("\\", "/").endswith(_THREADS)]
    if not threads:
        return None
    # Before it are the frames of the thread that waits for the result: grad mode is set there.
    inside = {frame.name for frame in raised.stack[threads[-1] :] if frame.is_user}
    modes = [
        place
        for place in raised.mentions("no_grad", "set_grad_enabled", "inference_mode", "enable_grad")
        if place.function not in inside
    ]
    if not modes:
        return None
    return FAULT.finding(
        "grad mode is per thread: the setting of the starting thread does not apply here",
        [*modes[:1], *raised.use],
        reason="no_grad(), inference_mode() and set_grad_enabled() apply only to the thread that calls them. A new thread starts "
        "with gradients enabled.",
        fix=Fix("use `torch.no_grad()` or `inference_mode()` inside the function that the thread runs"),
        certain=False,
        labels={"holder": "set here"},
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A thread is started under no_grad, and records a graph."""
    for fact in found.of(facts.GradModeLost):
        yield FAULT.finding(
            f"this runs in another thread, to which {fact.mode} of this thread does not apply",
            fact.places(),
            reason="Each thread has its own grad mode. The other thread records a graph.",
            fix=Fix("use `torch.no_grad()` inside the function that the thread runs"),
        )
