"""A TensorArray is used after a read or write consumed it, or the result of a write is discarded.

## What it means

TensorFlow raises InvalidArgumentError or FailedPreconditionError, "Could not read index 0 twice because it
was cleared after a previous read".

By default, a TensorArray clears an element when it is read, to free its memory. write() returns a new
TensorArray, which must be used instead of the old one.

## Why it hurts

A second read fails. A write whose result is discarded is lost in a graph, without an error.

## Example

    import tensorflow as tf

    array = tf.TensorArray(tf.float32, 2).unstack(tf.constant([1.0, 2.0]))
    print(array.read(0))
    print(array.read(0))

## Use instead

    import tensorflow as tf

    array = tf.TensorArray(tf.float32, 2, clear_after_read=False).unstack(tf.constant([1.0, 2.0]))
    print(array.read(0))
    print(array.read(0))

## How to be sure

Create the array with `clear_after_read=False`. If the error disappears, an element was read twice.
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

FAULT = Fault("TN214", "tensorarray-consumed", __doc__)

_SAYS = (
    r"Could not read index \d+ twice because it was cleared after a previous read"
    r"|TensorArray.*(?:was cleared|already been (?:read|closed|written)|has been closed|has already been)"
    r"|Could not write to TensorArray index \d+ because it has already been (?:read|written)"
    r"|TensorArray .*was passed.*twice"
)


def in_exception(raised: Raised) -> Finding | None:
    """An element of a TensorArray was read before, which cleared it."""
    if not raised.says(_SAYS):
        return None
    here = raised.here
    made = raised.calls("birth", "TensorArray")
    taken = [
        p for p in raised.calls("end", "read", "stack", "gather", "concat", "unstack") if here and p.line < here.line
    ]
    return FAULT.finding(
        "an earlier read already cleared this element of the TensorArray",
        [*made[:1], *taken[-1:], *raised.use],
        reason="A TensorArray clears an element when it is read, to free its memory (clear_after_read=True is the default). "
        "Each write returns a new TensorArray, and the old one must not be used again.",
        fix=Fix(
            "store the result of read() or stack() and use that, or create the array with `clear_after_read=False`",
            edits=raised.added("clear_after_read=False", "TensorArray"),
        ),
        labels={"end": "cleared here"},
        certain=bool(made),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """An element is read twice, or the result of `write` is not used."""
    for read_twice in found.of(facts.ArrayReadTwice):
        yield FAULT.finding(
            f"the read in line {read_twice.line('end')} already cleared this element of the TensorArray",
            read_twice.places(),
            reason="In eager mode a TensorArray drops each element when it is read.",
            fix=Fix(
                "read it once and keep the tensor in a variable, or create the array with `clear_after_read=False`"
            ),
            labels={"end": "cleared here"},
        )
    for fact in found.of(facts.WriteDiscarded):
        node = fact.node("use")
        owner = fact.text("use", node.func.value)
        yield FAULT.finding(
            "write() returns a new TensorArray, and this line discards it: the write is lost",
            fact.places(),
            fix=Fix(
                f"assign the result: `{owner} = {owner}.write(...)`",
                safe=True,
                edits=fact.before("use", node, f"{owner} = "),
            ),
        )
