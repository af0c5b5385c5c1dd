"""After `del` another name still holds the tensor.

`del x` takes away one name. The bytes go with the last reference: another name, a list, an attribute, a view, a loop
variable, the graph of another tensor. `tenure.holders(x)` tells who is left, `tenure.dispose(x)` ends it all the same.

Wrong:

    for batch in batches:
        out = model(batch)
    del out                                # but `batch`, the loop's variable, still lives

Right:

    del out, batch
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.findings import Finding

FAULT = Fault("TN315", "other-name-holds", __doc__)


def in_source(found: Found) -> Iterator[Finding]:
    """A name is deleted and memory collected, while another name holds the same bytes and is never used again."""
    for seen in found.of("still held"):
        name, other = seen.data["name"], seen.data["other"]
        yield FAULT.finding(
            f"this frees nothing: `{other}` still holds what `{name}` was",
            seen.places(),
            fix=Fix(f"delete both: del {name}, {other}"),
        )
