"""Tenure's values in notebooks: tables and trees in HTML, without scripts, with all text escaped.

`SHOWN` names the types and the functions that show them; the IPython extension registers these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenure.views.notebook.finding import findings
from tenure.views.notebook.page import Named, shortened
from tenure.views.notebook.tensors import holders, info, memory, remains
from tenure.views.notebook.trace import trace

Show = Callable[[Any, Named], str]

# Module and class, so that nothing is imported for what nobody shows.
SHOWN: dict[tuple[str, str], Show] = {
    ("tenure.findings", "Finding"): lambda one, named: findings([one], named),
    ("tenure.model", "Holder"): lambda one, named: holders([one], named),
    ("tenure.model", "Remains"): remains,
    ("tenure.model", "Memory"): memory,
    ("tenure.model", "TensorInfo"): info,
    ("tenure.traces", "Trace"): trace,
}


def several(values: Any, named: Named = shortened) -> str | None:
    """Return a list of findings or of holders; None for any other."""
    if not values or not all(type(one) is type(values[0]) for one in values):
        return None
    kind = type(values[0])
    show = _SEVERAL.get((kind.__module__, kind.__name__))
    return None if show is None else show(values, named)


_SEVERAL: dict[tuple[str, str], Show] = {
    ("tenure.findings", "Finding"): findings,
    ("tenure.model", "Holder"): holders,
}
