"""A gradient tape is used, or kept, past its end.

What happens: RuntimeError "A non-persistent GradientTape can only be used to compute one set of gradients"; or
gradients that are None.

Why: A tape records what runs in its `with` block, and lets its record go with the first gradient().

Wrong:

    import tensorflow as tf

    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        square, cube = x * x, x * x * x
    tape.gradient(square, x)
    tape.gradient(cube, x)

Right:

    import tensorflow as tf

    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        square, cube = x * x, x * x * x
    print(tape.gradient(square, x), tape.gradient(cube, x))
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
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN211", "tape-after-end", __doc__)

_SAYS = (
    r"non-persistent GradientTape can only be used|GradientTape\.gradient can only be called once"
    r"|A non-persistent (?:Gradient)?[Tt]ape|Tape is (?:not|already) (?:recording|closed)|Tape is still recording"
)
_NONE = r"'NoneType'|None values not supported|value \(None\)|No gradients provided for any variable|NoneType"


def in_exception(raised: Raised) -> Finding | None:
    """A tape asked twice, or asked about what it did not record."""
    if raised.says(_SAYS, "RuntimeError", "ValueError"):
        return _twice(raised)
    if raised.says(_NONE, "TypeError", "ValueError", "AttributeError"):
        return _outside(raised)
    return None


def _twice(raised: Raised) -> Finding:
    here = raised.here
    tapes = raised.calls("birth", "GradientTape")
    asked = [
        place
        for place in raised.calls("end", "gradient", "jacobian", "batch_jacobian")
        if here and place.line < here.line
    ]
    return FAULT.finding(
        "this GradientTape has given its gradients already, and let go of what it recorded",
        [*tapes[:1], *asked[-1:], *raised.use],
        reason="A tape frees its record with the first gradient() or jacobian(), so that the memory goes early.",
        fix=Fix(
            "ask for all gradients in one call (tape.gradient(loss, [a, b])), or open tf.GradientTape(persistent=True)",
            edits=raised.added("persistent=True", "GradientTape"),
        ),
    )


def _outside(raised: Raised) -> Finding | None:
    """Gradients are None because the loss was computed after the tape's `with` block."""
    found = raised.endings.after_tape()
    if found is None:
        return None
    loss, name = found
    return FAULT.finding(
        f"`{name}` is computed outside of the tape's `with` block: the tape did not record it, and its gradients are None",
        [loss, *raised.use],
        reason="A tape records what runs inside its `with` block, and nothing after it.",
        fix=Fix(f"move the line that computes `{name}` into the `with tf.GradientTape()` block"),
        certain=False,
    )


def in_run(leak: Leak) -> Finding | None:
    """Tapes are kept, and with each what it recorded."""
    if leak.what != "tapes":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{leak.count:,} gradient tapes are kept in {growth.name(leak)}, each with every tensor that it recorded",
        Fix(
            "take the gradients that are needed, and let the tape go; without persistent=True the first gradient() empties it"
        ),
        "A tape holds the inputs and outputs of all operations in its block, until its gradient is taken or it is gone.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A tape is asked twice, or kept."""
    for seen in found.of("tape used again"):
        yield FAULT.finding(
            f"this tape was used up by gradient() in line {seen.line('end')}",
            seen.places(),
            fix=Fix("ask for all gradients in one call, or make the tape persistent=True and delete it after use"),
        )
    for seen in found.of("tape kept"):
        yield FAULT.finding(
            "a gradient tape is kept from turn to turn, with all that it recorded",
            seen.places(),
            fix=Fix("keep the gradients, or numbers made of them, and let the tape go"),
        )
    for seen in found.of("outside tape"):
        yield FAULT.finding(
            "this was computed after the tape had ended: its gradient is None",
            seen.places(),
            fix=Fix("compute the loss inside the `with` block of the tape"),
        )
