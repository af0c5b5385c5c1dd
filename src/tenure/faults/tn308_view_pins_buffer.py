"""A small view keeps a large buffer alive.

## What it means

A view has no bytes of its own. x[0], x[:, -1], x.numpy() and NumPy slices of it reference the whole buffer of
x. np.frombuffer and np.asarray do the same to a bytearray, an array or a mapped file, which then cannot be
resized or closed: Python raises BufferError.

## Why it hurts

A list of small views keeps all the large buffers allocated, and torch.save writes the whole buffer of a view.

## Example

    rows.append(batch[0])                  # keeps the batch

## Use instead

    rows.append(batch[0].clone())
    rows.append(batch[0].numpy().copy())

## How to be sure

Compare `rows[0].untyped_storage().nbytes()` with `rows[0].nbytes`: the first is the memory that the view
keeps alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix
from tenure.model import size

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN308", "view-pins-buffer", __doc__)


_PINNED = (
    r"Existing exports of data: object cannot be re-sized|cannot resize an array that is exporting buffers"
    r"|cannot (?:close|resize|release) .*export|cannot close exported pointers exist|exported buffers? exist"
    r"|cannot resize an array that references or is referenced"
)


def in_exception(raised: Raised) -> Finding | None:
    """A buffer is resized or closed while an array or tensor still reads its memory, or the tensor on it is resized."""
    if raised.says(r"Trying to resize storage that is not resizable", "RuntimeError"):
        return _borrowed(raised)
    if not raised.says(_PINNED, "BufferError", "ValueError"):
        return None
    views, edits = raised.exports
    if not raised.mentions("numpy", "np", "torch", "tensorflow", "jax"):
        return None
    return FAULT.finding(
        "this buffer cannot change its size or be closed: an array or tensor still uses its memory",
        [*views[:2], *raised.use],
        reason="frombuffer, asarray and memoryview do not copy. As long as what they return is alive, the buffer must stay where it is.",
        fix=Fix("copy the data, `np.frombuffer(buffer).copy()`, or drop the array before this line", edits=edits),
        certain=bool(views),
        labels={"birth": "view created here"},
    )


def _borrowed(raised: Raised) -> Finding | None:
    """The failing line resizes a tensor, also by `out=`, whose memory torch did not allocate."""
    lent = raised.lent
    if not lent:
        return None
    return FAULT.finding(
        "this tensor cannot change its size: its memory belongs to an array or to another process",
        [*lent[:1], *raised.use],
        reason="from_numpy, frombuffer and share_memory_ give a tensor on memory that torch did not allocate, and cannot move.",
        fix=Fix(
            "let torch allocate it: `torch.tensor(array)` or `x.clone()`; or make the buffer large enough for the result"
        ),
        certain=False,
        labels={"birth": "memory lent here"},
    )


def in_run(leak: Leak) -> Finding | None:
    """Small views or arrays accumulate, and each keeps its whole buffer."""
    holder = leak.holder
    whole = leak.facts.get("whole") or 0
    if holder is None or leak.what != "buffers":
        return None
    part = holder.nbytes if holder.kind in ("array", "view") else leak.facts.get("bytes")
    part = None if part is None else max(part, leak.facts.get("viewed") or 0)  # all rows of a batch are the batch
    if part is None or not 0 < part * 4 <= whole or (leak.is_scalar and leak.carries_graph):
        return None
    return growth.told(
        FAULT,
        leak,
        f"views of {size(part)} in {growth.name(leak)} keep buffers of {size(whole)} alive ({growth.rate(leak)})",
        _copied(leak),
        "A view has no bytes of its own. As long as it is alive, its whole buffer stays allocated.",
    )


def _copied(leak: Leak) -> Fix:
    """A copy that is right at once: of what carries a graph, one without it."""
    if leak.holder is not None and leak.holder.kind == "array":
        return growth.edited(leak, ".copy()", "store a copy of the part")
    if leak.framework != "torch":
        return Fix("store a copy of the part: `x[...].copy()`")
    without = ".detach()" if leak.carries_graph else ""
    return growth.edited(leak, f"{without}.clone()", "store a copy of the part")


def in_source(found: Found) -> Iterator[Finding]:
    """A slice is stored or saved, and its base with it."""
    for view_kept in found.of(facts.ViewKept):
        text = ".copy()" if view_kept.fw == "np" else ".clone()"
        node = view_kept.node("escape")
        yield FAULT.finding(
            "this stores a view of a small part, which keeps the whole tensor alive",
            view_kept.places(),
            reason="A slice is a view. It has no bytes of its own and references the whole buffer.",
            fix=Fix(f"store a copy of the part: `{text}`", safe=True, edits=view_kept.after("escape", node, text)),
            labels={"escape": "view created here"},
        )
    for view_saved in found.of(facts.ViewSaved):
        node = view_saved.node("use")
        edits = view_saved.after("use", node.args[0], ".clone()") if node.args else ()
        yield FAULT.finding(
            "this saves a view of a part, but the file will contain the whole tensor",
            view_saved.places(),
            reason="torch.save writes the whole buffer of a view.",
            fix=Fix("save a copy: `.clone()`", safe=True, edits=edits),
            labels={"use": "saved here"},
        )
