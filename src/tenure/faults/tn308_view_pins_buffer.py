"""A small view keeps a large buffer alive.

A view has no bytes of its own. x[0], x[:, -1], x.numpy() and what NumPy slices of it keep the whole buffer of x alive,
and torch.save writes all of it.

Wrong:

    rows.append(batch[0])                  # keeps the batch

Right:

    rows.append(batch[0].clone())
    rows.append(batch[0].numpy().copy())
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix
from tenure.model import size

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.check.facts import Found
    from tenure.findings import Finding

FAULT = Fault("TN308", "view-pins-buffer", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Small views or arrays pile up, each with the whole buffer behind it."""
    holder = leak.holder
    whole = leak.facts.get("whole") or 0
    if holder is None or leak.what != "buffers":
        return None
    part = holder.nbytes if holder.kind in ("array", "view") else leak.facts.get("bytes")
    if part is None or not 0 < part * 4 <= whole or (leak.is_scalar and leak.carries_graph):
        return None
    return growth.told(
        FAULT,
        leak,
        f"views of {size(part)} in {growth.name(leak)} keep buffers of {size(whole)} alive: {growth.rate(leak)}",
        Fix("keep a copy of the part: x[...].clone() for a tensor, x[...].copy() for an array"),
        "A view has no bytes of its own: as long as it lives, all of the buffer it looks at does.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A slice is kept or saved, and its base with it."""
    for seen in found.of("view kept"):
        tensor = seen.data["tensor"]
        text = ".copy()" if tensor.fw == "np" else ".clone()"
        node = seen.node("escape")
        yield FAULT.finding(
            "this keeps a small part of a tensor, and with it the whole",
            seen.places(),
            reason="A slice is a view: it holds the buffer that it looks into.",
            fix=Fix(f"copy the part: {text}", safe=True, edits=seen.after("escape", node, text)),
        )
    for seen in found.of("view saved"):
        node = seen.node("use")
        edits = seen.after("use", node.args[0], ".clone()") if node.args else ()
        yield FAULT.finding(
            "this saves a part of a tensor, and writes the whole",
            seen.places(),
            reason="torch.save writes the buffer behind a view, not the view.",
            fix=Fix("save a copy: .clone()", safe=True, edits=edits),
        )
