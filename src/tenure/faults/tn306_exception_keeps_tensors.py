"""A kept exception keeps the frames it passed, and their tensors.

An exception carries its traceback, that every frame from raise to except, and each frame its variables: batches,
activations, graphs. Who keeps the exception keeps them. So does a retry inside of the except block, where the exception
is still being handled.

Wrong:

    except RuntimeError as error:
        failures.append(error)
        return train(batch_size // 2)      # still inside

Right:

    except RuntimeError as error:
        failures.append(repr(error))
    else:
        return loss
    return train(batch_size // 2)          # the frames are gone
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
    from tenure.findings import Finding

FAULT = Fault("TN306", "exception-keeps-tensors", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """What grew is held by the frames of exceptions that are kept."""
    if not leak.has("exception") and not (leak.holder and leak.holder.kind == "exception"):
        return None
    return growth.told(
        FAULT,
        leak,
        f"kept exceptions keep the tensors of the frames they passed: {growth.rate(leak)}, in {growth.name(leak)}",
        Fix("keep a text (repr(error)), or error.with_traceback(None); and leave the except block before trying again"),
        "An exception has its traceback, that has every frame between raise and except, and each frame its variables.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """An exception is kept, or work goes on inside its handler."""
    for seen in found.of("exception kept"):
        yield FAULT.finding(
            "this keeps an exception, and with it the frames it passed through and their tensors",
            seen.places(),
            fix=Fix("keep its text, or exc.with_traceback(None)"),
        )
    for seen in found.of("retry in handler"):
        yield FAULT.finding(
            "this tries again inside `except`, while the exception still holds the first try's tensors",
            seen.places(),
            reason="The exception, and the frames in its traceback, live until the handler ends.",
            fix=Fix("leave the handler first: note that it failed, and try again behind it"),
        )
