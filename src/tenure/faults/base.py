"""A rule: a module with `FAULT`, whose docstring is its page, and up to four functions that recognise it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tenure.findings import Finding, Fix, Place, Role, Severity
from tenure.model import Site


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule. `name` states the problem, never the remedy; the first line of `page` is the title.

    `labels` replaces the usual labels of the places' roles for all findings of the rule: `{"end": "closed here"}`.
    """

    code: str
    name: str
    page: str
    severity: Severity = "error"
    labels: Mapping[Role, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The problem in one sentence."""
        return self.page.strip().partition("\n")[0]

    def finding(
        self,
        message: str,
        places: Sequence[Place],
        *,
        reason: str = "",
        certain: bool = True,
        fix: Fix | None = None,
        evidence: Mapping[str, Any] | None = None,
        at: Place | None = None,
        labels: Mapping[Role, str] | None = None,
    ) -> Finding:
        """Return a finding of this rule. `labels` replaces the rule's own for this one."""
        named = {**self.labels, **(labels or {})}
        places = [replace(place, label=named[place.role]) if place.role in named else place for place in places]
        if at is not None and at.role in named:
            at = replace(at, label=named[at.role])
        return Finding(
            code=self.code,
            name=self.name,
            message=message,
            places=tuple(places),
            severity=self.severity,
            certain=certain,
            reason=reason,
            fix=fix,
            evidence=dict(evidence or {}),
            at=at,
        )


def known(error: BaseException | None, places: Mapping[Role, str]) -> list[Place]:
    """Return the places that one of tenure's own errors carries: `places` maps roles to names of its attributes."""
    found = ((role, getattr(error, name, None)) for role, name in places.items())
    return [Place.at(role, site) for role, site in found if isinstance(site, Site)]
