"""Two names share one buffer: a change through one changes the other.

What happens: Nothing fails: a number changes that nobody wrote to.

Why: from_numpy, numpy(), frombuffer, views, detach() and state_dict() share memory with what they came from.

Wrong:

    import torch

    layer = torch.nn.Linear(2, 1)
    best = layer.state_dict()
    with torch.no_grad():
        layer.weight.fill_(7.0)
    assert best["weight"].eq(7.0).all()

Right:

    import copy
    import torch

    layer = torch.nn.Linear(2, 1)
    best = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        layer.weight.fill_(7.0)
    assert not best["weight"].eq(7.0).any()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.findings import Finding

FAULT = Fault("TN404", "alias-changes", __doc__)


def in_source(found: Found) -> Iterator[Finding]:
    """What is kept changes with its source."""
    for seen in found.of("alias changes"):
        if seen.data["how"] == "state_dict":
            node = seen.data["node"]
            text = f"{{k: v.detach().clone() for k, v in {seen.text('birth', node)}.items()}}"
            yield FAULT.finding(
                "state_dict() refers to the live weights: what is kept here changes as training goes on",
                seen.places(),
                fix=Fix(
                    "keep a copy: copy.deepcopy(model.state_dict())", safe=True, edits=seen.replace("birth", node, text)
                ),
            )
        elif seen.data["how"] == "model":
            yield FAULT.finding(
                "this is another name for the model that is being trained, not a copy of it",
                seen.places(),
                fix=Fix("keep a copy: copy.deepcopy(model)"),
            )
        elif seen.data["how"] == "buffer":
            yield FAULT.finding(
                "this keeps one and the same buffer in every turn, and the next turn overwrites it",
                seen.places(),
                fix=Fix("keep a copy: .clone() of a tensor, .copy() of an array"),
            )
        else:
            node = seen.node("birth")
            yield FAULT.finding(
                "all tensors kept here share one buffer, which is overwritten in every turn",
                seen.places(),
                fix=Fix("copy: .clone() behind it", safe=True, edits=seen.after("birth", node, ".clone()")),
            )
