"""A gradient tape is used, or kept, after its record was used.

## What it means

TensorFlow raises RuntimeError, "A non-persistent GradientTape can only be used to compute one set of
gradients"; or gradients are None.

A tape records the operations in its `with` block. It frees this record with the first gradient(), unless it
is persistent. It does not record operations after the block.

## Why it hurts

A second gradient() fails. A gradient of something that the tape did not record is None, so the variable is
not trained. A tape that is kept keeps every tensor that it recorded.

## Example

    import tensorflow as tf

    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        square, cube = x * x, x * x * x
    tape.gradient(square, x)
    tape.gradient(cube, x)

## Use instead

    import tensorflow as tf

    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        square, cube = x * x, x * x * x
    print(tape.gradient(square, x), tape.gradient(cube, x))

## How to be sure

Open the tape with `persistent=True`: if the error disappears, the tape was used twice. For a None, compute
the loss inside the block: if the gradient is then a tensor, the tape had not recorded it.
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
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN211", "tape-after-end", __doc__)

_SAYS = (
    r"non-persistent GradientTape can only be used|GradientTape\.gradient can only be called once"
    r"|A non-persistent (?:Gradient)?[Tt]ape|Tape is (?:not|already) (?:recording|closed)|Tape is still recording"
)
_NONE = r"'NoneType'|None values not supported|value \(None\)|No gradients provided for any variable|NoneType"


def in_exception(raised: Raised) -> Finding | None:
    """A tape is used twice, or for something that it did not record."""
    if raised.says(_SAYS, "RuntimeError", "ValueError"):
        return _twice(raised)
    if raised.says(_NONE, "TypeError", "ValueError", "AttributeError"):
        return _outside(raised)
    return None


def _twice(raised: Raised) -> Finding:
    here = raised.here
    tapes = raised.calls("birth", "GradientTape")
    if raised.says(r"Tape is (?:still|already) recording"):
        return FAULT.finding(
            "this GradientTape is entered again while it still records",
            [*tapes[:1], *raised.use],
            reason="A tape records from the beginning of its `with` block to its end, and cannot begin a second time in between.",
            fix=Fix("create a tape of its own for each `with` block: `with tf.GradientTape() as tape:`"),
        )
    asked = [
        place
        for place in raised.calls("end", "gradient", "jacobian", "batch_jacobian")
        if here and place.line < here.line
    ]
    return FAULT.finding(
        "this GradientTape was already used, and its record was freed",
        [*tapes[:1], *asked[-1:], *raised.use],
        reason="A non-persistent tape frees its record with the first gradient() or jacobian(), to free memory early.",
        fix=Fix(
            "compute all gradients in one call, `tape.gradient(loss, [a, b])`, or use `tf.GradientTape(persistent=True)`",
            edits=raised.added("persistent=True", "GradientTape"),
        ),
        labels={"end": "record freed here"},
    )


def _outside(raised: Raised) -> Finding | None:
    """Gradients are None because the loss was computed after the tape's `with` block."""
    found = raised.endings.after_tape()
    if found is None:
        return None
    loss, name = found
    return FAULT.finding(
        f"the tape did not record `{name}`, so its gradients are None: it is computed outside the block",
        [loss, *raised.use],
        reason="A tape records only operations that run inside its `with` block.",
        fix=Fix(f"move the line that computes `{name}` into the `with tf.GradientTape()` block"),
        certain=False,
    )


def in_run(leak: Leak) -> Finding | None:
    """Tapes are stored, and each keeps the tensors that it recorded."""
    if leak.what != "tapes":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} keeps {leak.count:,} gradient tapes, each with every tensor that it recorded",
        Fix("compute the gradients and drop the tape; without persistent=True the first gradient() frees its record"),
        "A tape references the inputs and outputs of all operations in its block, until gradient() is called or the tape is "
        "freed.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A tape is used twice, or stored."""
    for tape_used_again in found.of(facts.TapeUsedAgain):
        yield FAULT.finding(
            f"gradient() in line {tape_used_again.line('end')} already freed the record of this tape",
            tape_used_again.places(),
            fix=Fix("compute all gradients in one call, or use `persistent=True` and delete the tape after use"),
            labels={"end": "record freed here"},
        )
    for tape_kept in found.of(facts.TapeKept):
        yield FAULT.finding(
            "every iteration stores a gradient tape, with every tensor that it recorded",
            tape_kept.places(),
            fix=Fix("store the gradients, or numbers computed from them, and drop the tape"),
        )
    for outside_tape in found.of(facts.OutsideTape):
        yield FAULT.finding(
            "this was computed after the tape's `with` block: its gradient is None",
            outside_tape.places(),
            fix=Fix("compute the loss inside the `with` block of the tape"),
            labels={"end": "tape created here"},
        )
