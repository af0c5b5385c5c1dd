"""An optimizer keeps parameters that were replaced, or misses the new ones.

An optimizer refers to each parameter that it was made for, and keeps state for it, often twice its size. Kept in a list
after its model is gone, it keeps all of that. The other way round, parameters that are replaced after the optimizer was
made are never trained.

Wrong:

    optimizers.append(optimizer)                         # of a model that is gone
    model.embedding = nn.Embedding(new_size, dim)        # the optimizer has the old one

Right:

    del model, optimizer                                 # together
    optimizer = torch.optim.AdamW(model.parameters())    # made anew after the change
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.check.facts import Found
    from tenure.findings import Finding
    from tenure.model import Link

FAULT = Fault("TN313", "optimizer-parameters-replaced", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Optimizers are kept, and with them parameters, gradients and state of models that are gone."""
    if leak.suspect is None or not _reached_through_optimizers(leak.links):
        return None
    return growth.told(
        FAULT,
        leak,
        f"optimizers kept in {growth.name(leak)} keep the parameters, gradients and state of earlier models: {growth.rate(leak)}",
        Fix(
            "drop the optimizer together with its model: clear the list, or call what the library has for it (free_memory())"
        ),
        "An optimizer refers to every parameter it was made for, and to its state for each.",
    )


def _reached_through_optimizers(links: tuple[Link, ...]) -> bool:
    """Whether a path goes through one of many optimizers: a trainer, too, may have a `state` with attributes of its own."""
    many = False
    for link, inner in pairwise(links):
        if many and link.text in (".param_groups", ".state") and inner.kind != "attribute":
            return True
        many = many or link.kind not in ("attribute", "local", "global", "class")
    return False


def in_source(found: Found) -> Iterator[Finding]:
    """An optimizer outlives its model, or misses its new weights."""
    for seen in found.of("parameters replaced"):
        yield FAULT.finding(
            "this optimizer was made before a part of its model was replaced: it updates weights that nobody uses",
            seen.places(),
            fix=Fix("replace the part first, or make the optimizer anew after it"),
        )
    for seen in found.of("optimizer kept"):
        yield FAULT.finding(
            "this keeps every optimizer it is given, and each keeps its parameters and their state",
            seen.places(),
            fix=Fix("clear the list when a training ends"),
        )
