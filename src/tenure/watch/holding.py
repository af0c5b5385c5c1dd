"""Who holds one of many things of the same origin, found while the program stands still."""

from __future__ import annotations

from typing import Any

from tenure.analysis import holders
from tenure.frameworks.base import Crowd, Growing
from tenure.model import Holder

_HOLDERS = 6


def search(crowd: Crowd, growing: Growing) -> tuple[dict[str, Any], list[Holder]]:
    """What one of them is, and who holds it and another: none of the newest, which may still be in use."""
    members = growing.members(crowd)
    sample = [members[len(members) * at // 5] for at in ((1, 3) if len(members) > 4 else (0,))] if members else []
    handles, buffers = growing.held(crowd, sample)
    facts = growing.facts(handles[0]) if handles else {}
    viewed = getattr(growing, "viewed", None)  # only torch has views
    if handles and viewed is not None:
        facts["viewed"] = viewed(handles)
    if not handles and not buffers:
        return facts, []
    own = frozenset({id(sample), id(members), id(crowd.members), id(handles), id(crowd)})
    return facts, holders.find(handles, buffers, own, _HOLDERS)
