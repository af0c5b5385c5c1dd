"""The output formats of findings, for people and for other tools: one file per format."""

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
