"""A stored exception keeps its frames, and their tensors, alive.

## What it means

An exception references its traceback. The traceback references every frame between `raise` and `except`, and
each frame its local variables: batches, activations, graphs. Inside the `except` block the exception is still
alive, so a retry there runs with the first attempt's tensors in memory.

## Why it hurts

A retry with a smaller batch runs out of memory again. A list of exceptions keeps the tensors of every failed
attempt.

## Example

    except RuntimeError as error:
        failures.append(error)
        return train(batch_size // 2)      # still inside the except block

## Use instead

    except RuntimeError as error:
        failures.append(repr(error))
    else:
        return loss
    return train(batch_size // 2)          # the frames are freed

## How to be sure

Look at `error.__traceback__`: if it is not None, walk it to the frame that failed; its `tb_frame.f_locals`
contains the tensors. `tenure.holders(x)` shows the reference path through the exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.findings import Finding

FAULT = Fault("TN306", "exception-keeps-tensors", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """The tensors are retained by the frames of stored exceptions."""
    if not leak.has("exception") and not (leak.holder and leak.holder.kind == "exception"):
        return None
    return growth.told(
        FAULT,
        leak,
        f"exceptions stored in {growth.name(leak)} keep the tensors of their frames ({growth.rate(leak)})",
        Fix("store `repr(error)` or `error.with_traceback(None)`; leave the except block before you try again"),
        "An exception references its traceback. The traceback references every frame between `raise` and `except`, and each "
        "frame its local variables.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """An exception is stored, or its handler tries the work again."""
    for exception_kept in found.of(facts.ExceptionKept):
        yield FAULT.finding(
            "this stores an exception, which keeps its frames and their tensors alive",
            exception_kept.places(),
            reason="An exception references its traceback, and the traceback the local variables of every frame.",
            fix=Fix("store its text, `repr(error)`, or `error.with_traceback(None)`"),
            labels={"birth": "caught here"},
        )
    for retry_in_handler in found.of(facts.RetryInHandler):
        yield FAULT.finding(
            "this tries again inside `except`, where the exception still keeps the first attempt's tensors",
            retry_in_handler.places(),
            reason="The exception and the frames in its traceback stay alive until the `except` block ends.",
            fix=Fix("set a flag in the `except` block, and try again after it"),
            labels={"holder": "exception handled here"},
        )
