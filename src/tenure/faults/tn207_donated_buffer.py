"""An array is used after it was donated to a compiled call.

## What it means

JAX raises RuntimeError, "Array has been deleted", ValueError, "Buffer has been deleted or donated", or
JaxRuntimeError, "Attempt to donate the same buffer twice".

donate_argnums lets the result use the argument's memory. The call deletes the argument, and every alias of
it.

## Why it hurts

The program stops at the next use of the argument or of an alias. Code that worked without donation fails with
it.

## Example

    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda w: w * 0.9, donate_argnums=0)
    old = jnp.ones(3)
    new = step(old)
    print(new - old)

## Use instead

    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda w: w * 0.9, donate_argnums=0)
    old = jnp.ones(3)
    before = jnp.copy(old)
    new = step(old)
    print(new - before)

## How to be sure

Call `old.is_deleted()` after the call: it returns True. Remove `donate_argnums`: if the error disappears,
donation was the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN207", "donated-buffer", __doc__, labels={"end": "donated here"})

_TWICE = r"(?:donate the same buffer twice|use a buffer that was previously donated)|donate a buffer which is also used by the same call|Donation requested for (?:invalid )?buffer"
_GONE = (
    r"Array has (?:already )?been deleted|deleted or donated|donated or deleted|called on deleted (?:or donated )?(?:buffer|array)"
    r"|[Bb]uffer has been donated"
)


def in_exception(raised: Raised) -> Finding | None:
    """A buffer that was donated to a jitted function is used again."""
    twice = raised.says(_TWICE)
    if not twice and not raised.says(_GONE):
        return None
    donations = raised.endings.donations
    # In a notebook the jitted function is in another cell. Where no delete() is to be seen, it was a donation.
    unseen = raised.in_notebook and not raised.endings.deletions
    if not twice and not unseen and (not donations or raised.endings.deletions):
        return None
    what = raised.endings.what
    if twice:
        message = "two arguments of this call share one buffer, and at least one of them is donated"
        fix = (
            "give each argument its own buffer: copy it where the second one is created, `jax.tree.map(jnp.copy, tree)`"
        )
    else:
        message = f"{what} is used after it was donated to a jitted function"
        copy = "jnp.copy(x)" if raised.endings.donates_arrays else "jax.tree.map(jnp.copy, x)"
        fix = f"use the result of the call (`x = f(x)`), make a copy before the call (`{copy}`), or do not donate it"
    return FAULT.finding(
        message,
        [*raised.endings.births, *donations[:2], *raised.use],
        reason="donate_argnums lets XLA write the result into the argument's memory, so the call deletes the argument. "
        "jnp.asarray, x[:] and an identity tree.map do not copy: what they return is deleted with it.",
        fix=Fix(fix),
        certain=bool(twice) or bool(donations),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """An array is used after a call that it was donated to."""
    for fact in found.of(facts.UsedAfterEnd):
        if fact.cause == "donated":
            yield FAULT.finding(
                f"this array was already donated to the call in line {fact.line('end')}",
                fact.places(),
                reason="The call reuses the buffer of a donated argument for its result. The argument has no data afterwards.",
                fix=Fix(
                    "assign the result to the same name, remove the argument from donate_argnums, or copy it first"
                ),
            )
