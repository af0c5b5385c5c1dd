"""An optimizer keeps parameters that were replaced, or misses the new ones.

## What it means

An optimizer references each parameter that it was created for, and keeps state for it, often twice the
parameter's size. If parameters are replaced after the optimizer was created, the optimizer does not know the
new ones.

## Why it hurts

An optimizer that is kept after its model was deleted keeps the parameters and their state in memory. New
parameters that it does not know are never trained.

## Example

    optimizers.append(optimizer)                         # of a model that was deleted
    model.embedding = nn.Embedding(new_size, dim)        # the optimizer has the old one

## Use instead

    del model, optimizer                                 # together
    optimizer = torch.optim.AdamW(model.parameters())    # create it again after the change

## How to be sure

Collect what the optimizer has: `known = {id(p) for g in optimizer.param_groups for p in g["params"]}`. Then
`all(id(p) in known for p in model.parameters())` is False if parameters were replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix
from tenure.model import Holder

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.explain.raised import Raised
    from tenure.findings import Finding
    from tenure.model import Link

FAULT = Fault("TN313", "optimizer-parameters-replaced", __doc__)


_OPTIMIZERS = (
    "SGD", "Adam", "AdamW", "Nadam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Ftrl", "Lion", "Lamb", "Adafactor", "Muon",
)  # fmt: skip


def in_exception(raised: Raised) -> Finding | None:
    """A Keras optimizer gets variables that it was not built for: of another model, or of layers that are new."""
    if not raised.says(
        r"optimizer can only be called for the variables it was originally built with|optimizer cannot recognize variable"
    ):
        return None
    return FAULT.finding(
        "this optimizer was built for other variables, and has no state for this one",
        [*raised.calls("birth", *_OPTIMIZERS)[:1], *raised.use],
        reason="A Keras optimizer creates its state with the first variables that it gets, and keeps those.",
        fix=Fix("create an optimizer for each model, after its last layer is built: a new model needs a new optimizer"),
        certain=False,
        labels={"birth": "optimizer created here"},
    )


def in_run(leak: Leak) -> Finding | None:
    """Optimizers are kept, or one keeps the parameters, gradients and state of models and layers that are gone."""
    if leak.suspect is None or not leak.has("optimizer"):
        return None
    if _reached_through_optimizers(leak.links):
        return growth.told(
            FAULT,
            leak,
            f"optimizers in {growth.name(leak)} keep parameters and state of earlier models ({growth.rate(leak)})",
            Fix(
                "drop the optimizer together with its model: clear the list, or call the library's own function, such as `free_memory()`"
            ),
            _REASON,
        )
    if not leak.facts.get("parameter"):
        return None
    return growth.told(
        FAULT,
        leak,
        f"{_optimizer(leak)} keeps parameters that were replaced, and their state ({growth.rate(leak)})",
        Fix(
            "when a parameter is replaced, take the old one out: `optimizer.state.pop(old, None)`, and its entry in "
            "`optimizer.param_groups`; or create the optimizer again"
        ),
        _REASON,
    )


_REASON = (
    "An optimizer references every parameter that it was created for, and so its gradient, and the state that it keeps "
    "for it."
)


def _optimizer(leak: Leak) -> str:
    """The optimizer as the user's source names it."""
    at = next(place for place, link in enumerate(leak.links) if link.kind == "optimizer")
    return f"`{Holder(leak.holder.kind, leak.links[:at]).name}`" if leak.holder is not None and at else "an optimizer"


def _reached_through_optimizers(links: tuple[Link, ...]) -> bool:
    """Return whether a path passes through one of several optimizers."""
    at = next((place for place, link in enumerate(links) if link.kind == "optimizer"), 0)
    return any(link.kind not in ("attribute", "local", "global", "class") for link in links[:at])


def in_source(found: Found) -> Iterator[Finding]:
    """An optimizer outlives its model, or misses its new weights."""
    for parameters_replaced in found.of(facts.ParametersReplaced):
        yield FAULT.finding(
            "this optimizer updates weights that its model no longer uses: a module was replaced afterwards",
            parameters_replaced.places(),
            fix=Fix("create the optimizer after the module is replaced"),
            labels={"use": "optimizer created here", "escape": "module replaced here", "end": "used here"},
        )
    for optimizer_kept in found.of(facts.OptimizerKept):
        yield FAULT.finding(
            "this stores every optimizer, and each keeps its parameters and their state",
            optimizer_kept.places(),
            fix=Fix("clear the list at the end of each training"),
        )
    for groups_kept in found.of(facts.GroupsKept):
        yield FAULT.finding(
            "this optimizer gets new parameters, and keeps the replaced ones with its state of them",
            groups_kept.places(),
            reason="Nothing takes the old parameters out of `param_groups`, nor their entries out of `optimizer.state`.",
            fix=Fix("remove the old group, and call `optimizer.state.pop(old, None)`"),
            labels={"holder": "added here"},
        )
