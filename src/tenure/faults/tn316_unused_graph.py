"""Evaluation builds an autograd graph that no backward pass uses.

## What it means

A model that requires gradients is called while gradients are enabled, but nothing ever differentiates the
result. Typical places are evaluation loops, sampling, and the choice of an action in reinforcement learning.

## Why it hurts

The forward pass saves every activation for a backward pass that never comes. They stay in memory until the
result is freed, so the peak is often two to three times as high. Results that are kept also keep their graphs.
model.eval() does not help: it changes dropout and batch normalisation, not autograd.

## Example

    model.eval()
    for x, y in test_batches:
        correct += (model(x).argmax(1) == y).sum().item()

## Use instead

    model.eval()
    with torch.no_grad():                # or decorate the function with @torch.no_grad()
        for x, y in test_batches:
            correct += (model(x).argmax(1) == y).sum().item()

## How to be sure

Print `model(x).grad_fn` in the loop: anything but None means that a graph is built. Compare the peak with and
without `torch.no_grad()`: `torch.cuda.max_memory_allocated()` on a GPU, `tenure run test.py` anywhere. `tenure run`
also reports by how much the peak drops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix, Place
from tenure.model import size

if TYPE_CHECKING:
    from tenure.analysis.unused_graphs import UnusedGraph
    from tenure.findings import Finding

_REASON = "Gradients are enabled here, so the forward pass saves its activations. Nothing differentiates the result."

FAULT = Fault("TN316", "unused-graph", __doc__, labels={"birth": "model created here"})


def in_source(found: Found) -> Iterator[Finding]:
    """A model is called with gradients enabled, and no backward pass uses the result."""
    for fact in found.of(facts.GraphUnused):
        yield FAULT.finding(
            "this forward pass builds an autograd graph that no backward pass uses",
            fact.places(),
            reason=_REASON,
            fix=Fix("call the model inside `with torch.no_grad():` or `with torch.inference_mode():`"),
        )


def in_trace(unused: UnusedGraph) -> Finding:
    """Return the advice for forward passes whose graphs make the peak."""
    one = "buffer" if unused.count == 1 else "buffers"
    share = unused.saved / unused.peak if unused.peak else 0
    finding = FAULT.finding(
        f"autograd graphs that no backward pass uses keep {size(unused.bytes)} in {unused.count:,} {one} at the peak",
        [Place.at("use", unused.site), Place.at("birth", unused.born)],
        reason=_REASON,
        fix=Fix(
            f"run line {unused.site.line} inside `with torch.no_grad():`: peak memory drops by about {size(unused.saved)}"
            f" ({share:.0%}), to {size(unused.left)}"
        ),
        evidence={
            "bytes": unused.bytes,
            "buffers": unused.count,
            "saved": unused.saved,
            "peak": unused.peak,
            "left": unused.left,
            "process": unused.process,
        },
        labels={"use": "graph built here", "birth": "created here"},
    )
    return replace(finding, severity="advice")  # the program is right, and needs less memory
