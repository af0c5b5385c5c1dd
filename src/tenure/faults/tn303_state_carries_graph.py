"""Recurrent state carries its autograd graph from one step to the next.

The new state is made of the old one, so its graph contains the old one's, back to the first step. The second backward()
runs into the part that the first has freed, and fails; with retain_graph=True it does not fail, and memory and time
grow with each step.

Wrong:

    for x, y in sequence:
        out, hidden = rnn(x, hidden)
        criterion(out, y).backward()

Right:

    for x, y in sequence:
        hidden = hidden.detach()           # of an LSTM: tuple(h.detach() for h in hidden)
        out, hidden = rnn(x, hidden)
        criterion(out, y).backward()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN303", "state-carries-graph", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """The second backward pass fails because a state carries the first one's graph into it."""
    if not raised.says(r"Trying to backward through the graph a second time", "RuntimeError"):
        return None
    carried = raised.autograd.carried
    if carried is None:
        return None
    name = carried.name
    where = carried.source.place("birth", carried.step.node)
    return FAULT.finding(
        f"`{name}` carries the graph of the last step into this one, where it is freed already",
        [where, *raised.use],
        reason=f"backward() frees the graph of its step. `{name}` is the result of that step and still points into it, so the "
        "next backward() goes there too.",
        fix=Fix(f"detach it between steps: {name} = {name}.detach() (for a tuple of states: each of them)"),
        certain=False,
    )


def in_run(leak: Leak) -> Finding | None:
    """A state that each step makes of the last one's carries all their graphs."""
    store = growth.stored(leak)
    if leak.what not in ("nodes", "buffers") or not leak.carries_graph or leak.grows_at is not None:
        return None
    if (leak.what == "nodes" and leak.is_scalar) or store is None or store.uses_itself != "call":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} carries the autograd graph of every step so far: {growth.rate(leak)}",
        growth.edited(leak, ".detach()", "cut the graph between steps"),
        "The new state is made of the old one, so its graph contains the old one's, back to the first step.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A state goes from turn to turn with its graph."""
    for seen in found.of("freed graph"):
        if seen.data["carried"]:
            yield FAULT.finding(
                "a state carries the graph of the last turn into this one, where its backward pass finds it freed",
                seen.places(),
                fix=Fix("detach the state between turns: state = state.detach()"),
            )
    for seen in found.of("retained growing"):
        if seen.data["state"]:
            yield FAULT.finding(
                "a state carries the graphs of all turns into this backward pass, which retain_graph=True keeps",
                seen.places(),
                fix=Fix("detach the state between turns, state = state.detach(), and drop retain_graph"),
            )
    for seen in found.of("state carried"):
        yield FAULT.finding(
            "a state carries the graphs of all turns of the loop",
            seen.places(),
            fix=Fix("detach the state between turns: state = state.detach()"),
        )
