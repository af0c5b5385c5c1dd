"""An array is used after it was donated to a compiled call.

What happens: RuntimeError "Array has been deleted", ValueError "Buffer has been deleted or donated", JaxRuntimeError
"Attempt to donate the same buffer twice".

Why: donate_argnums lets the result take the argument's memory: the call deletes the argument, and every alias of it.

Wrong:

    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda w: w * 0.9, donate_argnums=0)
    old = jnp.ones(3)
    new = step(old)
    print(new - old)

Right:

    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda w: w * 0.9, donate_argnums=0)
    old = jnp.ones(3)
    before = jnp.copy(old)
    new = step(old)
    print(new - before)
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

FAULT = Fault("TN207", "donated-buffer", __doc__)

_TWICE = r"(?:donate the same buffer twice|use a buffer that was previously donated)|donate a buffer which is also used by the same call|Donation requested for (?:invalid )?buffer"
_GONE = (
    r"Array has (?:already )?been deleted|deleted or donated|donated or deleted|called on deleted (?:or donated )?(?:buffer|array)"
    r"|[Bb]uffer has been donated"
)


def in_exception(raised: Raised) -> Finding | None:
    """A buffer that was given to a jitted function with donate_argnums and is used again."""
    twice = raised.says(_TWICE)
    if not twice and not raised.says(_GONE):
        return None
    donations = raised.endings.donations
    if not twice and (not donations or raised.endings.deletions):
        return None
    what = raised.endings.what
    if twice:
        message = "one buffer is donated twice in one call, or donated and used in it: two arguments share it"
        fix = "copy it where the second of them is made (jax.tree.map(jnp.copy, tree)), so that each argument has its own buffer"
    else:
        message = f"{what} was donated to a jitted function and is used again"
        fix = "use what the call returns (x = f(x)), keep a copy before the call (jnp.copy, jax.device_get), or do not donate it"
    return FAULT.finding(
        message,
        [*raised.endings.births, *donations[:2], *raised.use],
        reason="donate_argnums lets XLA write the result into the argument's memory, so the argument is deleted by the call. "
        "jnp.asarray, x[:] and an identity tree.map give no copy: what they return is deleted with it.",
        fix=Fix(fix),
        certain=bool(twice) or bool(donations),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """An array is used after a call that it was donated to."""
    for seen in found.of("used after end"):
        if seen.data["cause"] == "donated":
            yield FAULT.finding(
                f"this array was donated to the call in line {seen.line('end')}",
                seen.places(),
                reason="A donated argument's buffer is reused for the result. Its old name refers to nothing.",
                fix=Fix(
                    "bind the result to the same name, or leave the argument out of donate_argnums, or copy it first"
                ),
            )
