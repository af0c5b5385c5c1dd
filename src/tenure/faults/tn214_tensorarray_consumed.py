"""A TensorArray is used after a write or read consumed it, or the result of a write is dropped.

What happens: InvalidArgumentError or FailedPreconditionError "Could not read index 0 twice because it was cleared after
a previous read".

Why: A TensorArray clears what is read, to give memory back. It fails when it runs eagerly; in a graph another read may
be all there is.

Wrong:

    import tensorflow as tf

    array = tf.TensorArray(tf.float32, 2).unstack(tf.constant([1.0, 2.0]))
    print(array.read(0))
    print(array.read(0))

Right:

    import tensorflow as tf

    array = tf.TensorArray(tf.float32, 2, clear_after_read=False).unstack(tf.constant([1.0, 2.0]))
    print(array.read(0))
    print(array.read(0))
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

FAULT = Fault("TN214", "tensorarray-consumed", __doc__)

_SAYS = (
    r"Could not read index \d+ twice because it was cleared after a previous read"
    r"|TensorArray.*(?:was cleared|already been (?:read|closed|written)|has been closed|has already been)"
    r"|Could not write to TensorArray index \d+ because it has already been (?:read|written)"
    r"|TensorArray .*was passed.*twice"
)


def in_exception(raised: Raised) -> Finding | None:
    """An element of a TensorArray that was read before, and cleared by that."""
    if not raised.says(_SAYS):
        return None
    here = raised.here
    made = raised.calls("birth", "TensorArray")
    taken = [
        p for p in raised.calls("end", "read", "stack", "gather", "concat", "unstack") if here and p.line < here.line
    ]
    return FAULT.finding(
        "an element of this TensorArray was read before, and that cleared it",
        [*made[:1], *taken[-1:], *raised.use],
        reason="A TensorArray clears an element when it is read, to give the memory back (clear_after_read is true unless said "
        "otherwise). Each write gives a new TensorArray, and the old one is used up.",
        fix=Fix(
            "keep what read() or stack() returned and use that, or make the array with clear_after_read=False",
            edits=raised.added("clear_after_read=False", "TensorArray"),
        ),
        certain=bool(made),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """The result of `write` is not taken."""
    for seen in found.of("write discarded"):
        node = seen.node("use")
        owner = seen.text("use", node.func.value)
        yield FAULT.finding(
            "the TensorArray that write() returns is dropped, and with it what was written",
            seen.places(),
            fix=Fix(f"{owner} = {owner}.write(...)", safe=True, edits=seen.before("use", node, f"{owner} = ")),
        )
