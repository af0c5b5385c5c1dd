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

from tenure.faults.base import Fault

FAULT = Fault("TN315", "other-name-holds", __doc__)
