"""backward runs through an autograd graph that was already freed.

What happens: RuntimeError "Trying to backward through the graph a second time"; for torch.compile "compiled with non-
empty donated buffers".

Why: backward() frees what the graph saved, as it goes. Two losses that share a part, or a value that carries the graph
of an earlier turn, lead the second pass into it. retain_graph=True hides that, and keeps the memory.

Wrong:

    import torch

    w = torch.ones(3, requires_grad=True)
    features = torch.exp(w)
    first, second = features.sum(), (features ** 2).sum()
    first.backward()
    second.backward()

Right:

    import torch

    w = torch.ones(3, requires_grad=True)
    features = torch.exp(w)
    first, second = features.sum(), (features ** 2).sum()
    (first + second).backward()
    print(w.grad)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.autograd import Shared
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN208", "freed-graph", __doc__)

_AGAIN = r"Trying to backward through the graph a second time|saved (?:tensors?|intermediate values|variables).* (?:have already been|after it has been) freed|already been freed"
_DONATED = r"compiled with non-empty donated buffers"


def in_exception(raised: Raised) -> Finding | None:
    """A backward pass over a graph whose saved tensors an earlier backward pass has freed."""
    donated = raised.says(_DONATED)
    if not donated and not raised.says(_AGAIN, "RuntimeError"):
        return None
    shared, earlier = raised.autograd.backwards
    names = ", ".join(f"`{name}`" for name in shared.names) if shared else ""
    if donated:
        message = "a compiled backward pass was asked to keep its graph, but its buffers are donated"
        why = "torch.compile frees the saved tensors of a backward pass that was compiled without retain_graph while it runs."
        fix = "add the losses and call backward() once; or set torch._functorch.config.donated_buffer = False"
    else:
        message = "this backward pass goes through a graph that an earlier one has freed"
        message += f", by way of {names}" if names else ""
        why = "backward() frees what the graph saved, as it goes. "
        why += "The part that both passes share was gone when the second one came to it."
        fix = _repair(shared, several=bool(earlier))
    return FAULT.finding(
        message,
        [*(shared.places if shared else []), *earlier, *raised.use],
        reason=why,
        fix=Fix(fix),
        certain=True,
    )


def _repair(shared: Shared | None, *, several: bool) -> str:
    name = shared.names[0] if shared and shared.names else ""
    if several:
        return (
            "add the losses and call backward() once, or detach what one of them should not reach"
            + (f" ({name}.detach())" if name else "")
            + "; retain_graph=True only if both passes are meant to go through it"
        )
    if shared and shared.is_list:
        return f"empty `{name}` after each backward(), or keep detached values in it"
    made = f"compute `{name}` inside the loop" if name else "compute what both passes share anew in each turn"
    return f"{made}, or detach it: what several turns use must not carry the graph of the first"


def in_source(found: Found) -> Iterator[Finding]:
    """A second backward pass through what the first has freed."""
    for seen in found.of("freed graph"):
        if not seen.data["carried"]:
            yield FAULT.finding(
                f"this backward pass goes through a graph that the one in line {seen.line('end')} has freed",
                seen.places(),
                reason="backward() frees what the graph saved, as it goes.",
                fix=Fix("add the losses and call backward() once; or detach what only one of them should reach"),
            )
    for seen in found.of("compiled retained"):
        yield FAULT.finding(
            "a compiled function's backward pass is asked to keep its graph, but its buffers are donated",
            seen.places(),
            fix=Fix("add the losses and call backward() once; or set torch._functorch.config.donated_buffer = False"),
        )
