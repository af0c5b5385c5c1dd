"""A tensor is used after a scope or dispose ended it.

What happens: TensorReleased, tenure's own error: what the tensor was, where it was born, ended and used.

Why: A scope ends what was born in it and does not leave it; dispose() ends what it is given. The handle keeps its shape
and type, the bytes are gone.

Wrong:

    import torch
    import tenure

    with tenure.scope("step"):
        loss = torch.ones(3) * 2
    print(loss + 1)

Right:

    import torch
    import tenure

    with tenure.scope("step"):
        loss = tenure.keep(torch.ones(3) * 2)
    print(loss + 1)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix, Place

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding, Role

FAULT = Fault("TN205", "used-after-release", __doc__)

_LINE = re.compile(
    r"^\s*(?P<role>born|ended|used):\s+(?:by (?P<by>.*?) at )?(?P<file>[^\n]*?\.\w+|<[^>\n]*>):(?P<line>\d+)",
    re.MULTILINE,
)
_ROLES: dict[str, Role] = {"born": "birth", "ended": "end", "used": "use"}


def in_exception(raised: Raised) -> Finding | None:
    """tenure's own TensorReleased, which tells all there is to tell."""
    if raised.kind != "TensorReleased":
        return None
    what = raised.message.partition(" was used after its end")[0].rpartition("\n")[2] or "a tensor"
    places, by = [], ""
    for told in _LINE.finditer(raised.message):
        by = told["by"] or by
        places.append(Place(_ROLES[told["role"]], told["file"], int(told["line"])))
    fix = re.search(r"^\s*fix:\s+(?P<text>.+)$", raised.message, re.MULTILINE)
    used = raised.use if not any(place.role == "use" for place in places) else []
    return FAULT.finding(
        f"{what} was used after its end" + (f" by {by}" if by else ""),
        [*places, *used],
        reason="A scope ends what was born in it, and dispose() what it is given. The handle stays and keeps its shape and "
        "type; its bytes are gone.",
        fix=Fix(fix["text"]) if fix else None,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor is used after a scope or dispose() ended it."""
    for seen in found.of("used after end"):
        if seen.data["cause"] == "released":
            yield FAULT.finding(
                f"this tensor was released in line {seen.line('end')}",
                seen.places(),
                fix=Fix("keep it (tenure.keep), return it from the scope, or release it after this use"),
            )
