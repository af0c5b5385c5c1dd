"""A tensor is used after a scope or dispose() released it.

## What it means

tenure raises TensorReleased. The message names the tensor, and the lines that created, released and used it.

A scope releases the tensors that were created in it, except those that leave it. dispose() releases the
tensors that you pass. The handle keeps its shape and dtype, but its bytes are freed.

## Why it hurts

The program stops instead of computing with memory that was freed.

## Example

    import torch
    import tenure

    with tenure.scope("step"):
        loss = torch.ones(3) * 2
    print(loss + 1)

## Use instead

    import torch
    import tenure

    with tenure.scope("step"):
        loss = tenure.keep(torch.ones(3) * 2)
    print(loss + 1)

## How to be sure

Print the tensor: a released one prints as `<released ...>`, with the cause and the line. `tenure.info(x)`
returns the same information as data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix, Place

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding, Role

FAULT = Fault("TN205", "used-after-release", __doc__)

# The forms of older versions, too: users paste old logs.
_HEADS = (
    re.compile(r"^(?P<op>\.\w+) was read on (?P<what>[^\n]+) after it was released$", re.MULTILINE),
    re.compile(r"^(?P<op>[^\n]+?) used (?P<what>[^\n]+) after it was released$", re.MULTILINE),
    re.compile(r"^(?P<what>[^\n]+) was used after it was released$", re.MULTILINE),
    re.compile(r"^(?P<what>[^\n]+) was used after its end(?:, by (?P<op>[^\n]+))?$", re.MULTILINE),
)
_LINE = re.compile(
    r"^\s*(?P<role>created|released|used|born|ended):\s+(?:by (?P<by>.*?) at )?"
    r"(?P<file>[^\n]*?\.\w+|<[^>\n]*>):(?P<line>\d+)",
    re.MULTILINE,
)
_ROLES: dict[str, Role] = {"created": "birth", "released": "end", "used": "use", "born": "birth", "ended": "end"}


def in_exception(raised: Raised) -> Finding | None:
    """Explain tenure's own TensorReleased, from the places that its message names."""
    if raised.kind != "TensorReleased":
        return None
    head = next((found for form in _HEADS if (found := form.search(raised.message))), None)
    what, op = (head["what"], head.groupdict().get("op") or "") if head else ("a tensor", "")
    places, by = [], ""
    for line in _LINE.finditer(raised.message):
        by = line["by"] or by
        places.append(Place(_ROLES[line["role"]], line["file"], int(line["line"])))
    fix = re.search(r"^\s*fix:\s+(?P<text>.+)$", raised.message, re.MULTILINE)
    used = raised.use if not any(place.role == "use" for place in places) else []
    return FAULT.finding(
        f"{_use_of(what, op)} after it was released" + (f" by {by}" if by else ""),
        [*places, *used],
        reason="A scope releases the tensors that were created in it when it exits; dispose() releases its argument. "
        "A released handle keeps its shape and type, but its bytes are freed.",
        fix=Fix(fix["text"]) if fix else None,
    )


def _use_of(what: str, op: str) -> str:
    if op.startswith("."):
        return f"{op} was read on {what}"
    return f"{op} used {what}" if op else f"{what} was used"


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor is used after a scope or dispose() released it."""
    for fact in found.of(facts.UsedAfterEnd):
        if fact.cause == "released":
            yield FAULT.finding(
                f"this tensor was already released in line {fact.line('end')}",
                fact.places(),
                fix=Fix(
                    "call `tenure.keep(x)` before the scope ends, return it from the scope, or release it after this use"
                ),
            )
