"""A value made inside a control-flow body (cond, while_loop, scan, map_fn, Dataset.map) is used outside of it.

What happens: The same errors as TN101, or AutoGraph's "must also be initialized in the else branch".

Why: Branches and loop bodies (tf.cond, tf.while_loop, map_fn, Dataset.map, lax.cond, lax.scan, an `if` or `for` under
AutoGraph) are traced as functions of their own. Only what they return comes out.

Wrong:

    import jax
    import jax.numpy as jnp

    seen = []

    def body(carry, x):
        carry = carry * 0.9 + x
        seen.append(carry)
        return carry, None

    jax.lax.scan(body, 0.0, jnp.arange(3.0))
    print(seen[-1] + 1.0)

Right:

    import jax
    import jax.numpy as jnp

    def body(carry, x):
        carry = carry * 0.9 + x
        return carry, carry

    last, seen = jax.lax.scan(body, 0.0, jnp.arange(3.0))
    print(seen[-1] + 1.0)
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

FAULT = Fault("TN102", "escapes-control-flow", __doc__)


_LONE = (
    r"'(?P<branch>[^'\n]+(?:'[^'\n]*'\])?)' must also be initialized in the \w+ branch"
    r"|'(?P<loop>[^\n]+?)' must be defined before the loop"
)


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value outside of the branch or loop body that made it."""
    leak = raised.leak
    if leak is not None and leak.construct:
        return leak.finding(FAULT)
    lone = raised.says(_LONE, "ValueError", "UnboundLocalError")
    return _alone(raised, lone[0], lone["branch"] or lone["loop"]) if lone else None


def _alone(raised: Raised, said: str, name: str) -> Finding:
    """AutoGraph found it while it traced: only one branch, or only the body, makes the value."""
    loop = "before the loop" in said
    return FAULT.finding(
        f"`{name}` gets its value only inside the loop" if loop else f"`{name}` gets its value in one branch only",
        [*raised.assignments("birth", name)[:1], *raised.use],
        reason="AutoGraph turns this into tf.cond or tf.while_loop. What a body makes ends with the body, unless every way "
        "through the code gives the name a value of the same type.",
        fix=Fix(f"give `{name}` a value " + ("before the loop" if loop else "in both branches, or before the `if`")),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A symbol of a branch, a loop body or a mapped function is left outside of it."""
    for seen in found.of("escape"):
        if seen.data["trace"] == "control flow":
            how, holder = seen.data["how"], seen.data["holder"]
            yield FAULT.finding(
                f"a value made in a function that {how} traces is left in {holder}, outside of it",
                seen.places(),
                reason="Bodies of control flow are graphs of their own. What is made in one is known only there.",
                fix=Fix(f"return the value from the function given to {how}"),
                evidence={"traced by": how, "kept in": holder},
            )
