"""Findings in the forms that people and other tools read: one file a form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.findings import Finding
from tenure.views.formats import concise, full, github, plain_json, sarif

FORMATS: dict[str, Callable[[Sequence[Finding]], str]] = {
    "full": full.render,
    "concise": concise.render,
    "json": plain_json.render,
    "sarif": sarif.render,
    "github": github.render,
}
