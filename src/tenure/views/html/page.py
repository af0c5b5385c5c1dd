"""The page as one HTML file that needs nothing else: no network, and no other script or style than its own."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# In the order in which they need each other.
SCRIPTS = (
    "words", "model", "layers", "state", "chart", "lists", "source", "lives", "panels", "compare", "remote", "keys",
    "main",
)  # fmt: skip
LIBRARY = "echarts.common.min.js"


def render(told: dict[str, Any]) -> str:
    """Return the page for `trace`, with `other` to compare it with, and `server` if it can request details."""
    parts = _parts()
    connect = "'self'" if told.get("server") else "'none'"
    policy = (
        f"default-src 'none'; script-src {_hash(parts['LIBRARY'])} {_hash(parts['SCRIPT'])}; "
        f"style-src {_hash(parts['STYLE'])}; img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    filled = {**parts, "POLICY": policy, "DATA": embedded(told)}
    page = _read("page/index.html")
    for name in ("POLICY", "STYLE", "LIBRARY", "SCRIPT", "DATA"):  # what traces say comes last, and is not searched
        page = page.replace(f"__{name}__", filled[name], 1)
    return page


def is_page(data: bytes) -> bool:
    """Return whether a file is such a page."""
    return data.startswith(b"<!doctype html>") and b"<title>tenure</title>" in data[:4096]


def embedded(told: Any) -> str:
    """JSON that stays data within a page: it cannot end the script element, nor begin a comment."""
    text = json.dumps(told, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _parts() -> dict[str, str]:
    scripts = "\n".join(_read(f"page/{name}.js") for name in SCRIPTS)
    return {
        "STYLE": _read("page/style.css"),
        "LIBRARY": _read(f"vendor/{LIBRARY}"),
        "SCRIPT": f'(() => {{\n"use strict";\n{scripts}}})();',
    }


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _read(name: str) -> str:
    return (HERE / name).read_text("utf-8")
