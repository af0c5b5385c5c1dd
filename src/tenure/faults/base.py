"""What a fault is: a module with `FAULT`, whose docstring is its page, and up to three functions that recognise it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenure.findings import Finding, Fix, Place, Role, Severity
from tenure.model import Site


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of lifetime mistake. `name` names what is wrong, never the remedy; the page's first line is its title."""

    code: str
    name: str
    page: str
    severity: Severity = "error"

    @property
    def title(self) -> str:
        """The fault in one sentence."""
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
    ) -> Finding:
        """One finding of this fault."""
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
    """The places that an error of tenure's own has with it: by role, the name of its attribute."""
    found = ((role, getattr(error, name, None)) for role, name in places.items())
    return [Place.at(role, site) for role, site in found if isinstance(site, Site)]
