"""The pages of the Python API, made from signatures and docstrings.

`python docs/_api.py` writes docs/api.md, the list of names, which also people read who do not build the site.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tenure

INDEX = Path(__file__).with_name("api.md")
# One page for each group. A name with a module is not in `tenure.__all__`: a public function returns it.
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "release": ("Release tensors", ("scope", "Scope", "keep", "adopt", "carry", "dispose", "remains", "own", "Owned")),
    "inspect": (
        "See what is alive",
        ("holders", "info", "memory", "Holder", "Link", "Memory", "Remains", "Remnant", "Site", "TensorInfo", "Usage"),
    ),
    "record": (
        "Record a program",
        (
            *("trace", "step", "mark", "load", "Trace", "trace.api.Tracing"),
            *("analysis.peak.Peak", "analysis.drag.Drag", "analysis.drag.Advice", "analysis.diff.Diff"),
            *("analysis.diff.Change", "analysis.leaks.model.Leak"),
        ),
    ),
    "explain": (
        "Explain errors",
        (
            *("explain", "install", "uninstall", "load_ipython_extension", "unload_ipython_extension"),
            *("findings.Finding", "findings.Place", "findings.Fix", "findings.Edit"),
        ),
    ),
    "share": (
        "Share tensors",
        (
            *("Store", "sharing.store.Lease", "sharing.store.base.Entry", "sharing.store.base.Reading"),
            *("sharing.store.base.Doer", "sharing.store.CopyWarning", "variable_scope", "variable"),
            *("Session", "sharing.session.Lease", "sharing.session_told.Report"),
        ),
    ),
    "errors": (
        "Errors",
        (
            *("TenureError", "TensorReleased", "ScopeError", "CapExceeded", "TraceError", "Unsupported"),
            *("StoreError", "NameTaken", "NameMissing", "SessionClosed"),
        ),
    ),
}
# Two classes have this name.
TITLES = {
    "sharing.store.Lease": "class Lease, of a store",
    "sharing.session.Lease": "class Lease, of a session",
}
_SECTION = re.compile(r"^(Example|Arguments|Attributes|Returns|Raises):$", re.MULTILINE)
_HEADS = {"Arguments": "argument | meaning", "Attributes": "attribute | meaning", "Raises": "raises | when"}
_ITEM = re.compile(r"^(\w+): ", re.MULTILINE)
# Modules that annotations name in full.
_MODULES = re.compile(r"\b(?:tenure|typing|collections\.abc|os|pathlib|types|datetime)(?:\.[a-z_]\w*)*\.(?=[A-Za-z])")


def pages() -> Iterator[tuple[str, str]]:
    """Return the name and the Markdown text of the page of each group."""
    for group, (title, names) in GROUPS.items():
        yield f"api/{group}.md", "\n\n".join([f"# {title}", *map(_described, names)]) + "\n"


def index() -> str:
    """Return the text of docs/api.md: every public name and the first line of its docstring."""
    listed = {name for _, names in GROUPS.values() for name in names if "." not in name}
    assert listed == set(tenure.__all__), f"docs/_api.py must list every public name: {listed ^ set(tenure.__all__)}"
    parts = ["# Python API\n\n`import tenure`, then `tenure.scope(…)`. `help(tenure.scope)` shows the arguments."]
    for title, names in GROUPS.values():
        rows = "\n".join(f"| `{name}` | {_summary(name)} |" for name in names if "." not in name)
        parts.append(f"## {title}\n\n| name | summary |\n|---|---|\n{rows}")
    return "\n\n".join(parts) + "\n"


def linked(markdown: str) -> str:
    """Return the text of docs/api.md with each name linked to its section."""
    homes = {name: f"api/{group}.md#{_anchor(name)}" for group, (_, names) in GROUPS.items() for name in names}
    return re.sub(r"^\| `(\w+)` \|", lambda row: f"| [`{row[1]}`]({homes[row[1]]}) |", markdown, flags=re.MULTILINE)


def _found(name: str) -> Any:
    home, _, last = name.rpartition(".")
    if not home:  # `tenure.trace` is a package once something in it is imported
        home = next(home for home, names in tenure._HOMES.items() if name in names)
    return getattr(importlib.import_module(f"tenure.{home}"), last)


def _title(name: str) -> str:
    """Return the heading of a section; no two are equal without regard to case, so that each has its own anchor."""
    found, short = _found(name), name.rpartition(".")[2]
    return TITLES.get(name) or (f"class {short}" if inspect.isclass(found) else f"{short}()")


def _anchor(name: str) -> str:
    return re.sub(r"[^\w\- ]", "", _title(name)).lower().replace(" ", "-")


def _summary(name: str) -> str:
    first = inspect.getdoc(_found(name)).partition("\n\n")[0]
    return _line(first)


def _described(name: str) -> str:
    """Return the section of one function or class."""
    found, short = _found(name), name.rpartition(".")[2]
    shown = f"tenure.{short}" if "." not in name else short
    parts = [f"## {_title(name)}"]
    if "." in name:
        parts.append(_code(f"from tenure.{name.rpartition('.')[0]} import {short}"))
    if not inspect.isclass(found):
        return "\n\n".join([*parts, _code(f"{shown}{_signature(found)}"), _doc(inspect.getdoc(found))])
    bases = [base.__name__ for base in found.__bases__ if base is not object]
    if issubclass(found, BaseException):
        parts += [f"Inherits from {' and '.join(f'`{base}`' for base in bases)}."]
    elif _is_made_by_users(name):
        parts.append(_code(f"{shown}{_signature(found)}"))
    parts.append(_doc(inspect.getdoc(found), _types(found) if dataclasses.is_dataclass(found) else {}))
    own = list(_members(found))
    values = [_value(member, value) for member, value in own if isinstance(value, property) or _is_cached(value)]
    if values:
        parts.append("| property | type | meaning |\n|---|---|---|\n" + "\n".join(values))
    for member, value in own:
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inspect.isfunction(function):
            text = _doc(inspect.getdoc(function))
            parts += [
                f"### {short}.{member}",
                _code(f"{'await ' * inspect.iscoroutinefunction(function)}{member}{_signature(function)}"),
                text,
            ]
    return "\n\n".join(parts)


def _is_made_by_users(name: str) -> bool:
    return name in ("Store", "Session", "variable_scope")


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Return the documented public members of a class and of the classes of tenure's that it inherits from."""
    seen = set()
    for base in cls.__mro__:
        if base.__module__.startswith("tenure."):
            for name, value in vars(base).items():
                inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if not name.startswith("_") and name not in seen and getattr(inner, "__doc__", None):
                    seen.add(name)
                    if isinstance(value, property) or inspect.isfunction(inner) or _is_cached(value):
                        yield name, value


def _is_cached(value: object) -> bool:
    return type(value).__name__ == "cached_property"


def _value(name: str, value: Any) -> str:
    function = value.func if _is_cached(value) else value.fget
    kind = inspect.signature(function).return_annotation
    return f"| `{name}` | `{_plain(kind)}` | {_line(inspect.getdoc(function))} |"


def _types(cls: type) -> dict[str, str]:
    return {field.name: _plain(field.type) for field in dataclasses.fields(cls)}


def _plain(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _MODULES.sub("", text)


def _line(text: str | None) -> str:
    """Return a text as one line of a table; `|` separates columns, except in code."""
    parts = re.split(r"(`[^`]*`)", " ".join((text or "").split()))
    return "".join(part if part.startswith("`") else part.replace("|", "\\|") for part in parts)


class _Shown(str):
    """Text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(function: Any) -> str:
    """Return a signature without `self`: on one line, or one argument per line if it is long."""
    signature = inspect.signature((typing.get_overloads(function) or [function])[-1])
    given = []
    for one in signature.parameters.values():
        if one.name not in ("self", "cls"):
            default = _Shown("...") if inspect.isfunction(one.default) else one.default
            given.append(one.replace(annotation=_Shown(_MODULES.sub("", str(one.annotation))), default=default))
    result = "" if inspect.isclass(function) else f" -> {_MODULES.sub('', str(signature.return_annotation))}"
    text = str(inspect.Signature(given))
    if len(text + result) < 80:
        return text + result
    rows = [str(inspect.Signature([one]))[1:-1].removeprefix("*, ").removesuffix(", /") for one in given]
    keyword = next((at for at, one in enumerate(given) if one.kind is one.KEYWORD_ONLY), None)
    if keyword is not None and not any(one.kind is one.VAR_POSITIONAL for one in given):
        rows.insert(keyword, "*")
    return "(\n" + "".join(f"    {row},\n" for row in rows) + ")" + result


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _doc(text: str | None, types: dict[str, str] | None = None) -> str:
    """Return a docstring as Markdown: its sections become code, lists and tables."""
    text = (text or "").replace("docs/trace-format.md", "[the trace format](../trace-format.md)")
    parts = _SECTION.split(text)
    done = [parts[0].strip()]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        inner = textwrap.dedent(body.strip("\n"))
        if title == "Example":
            done.append(_code(inner.rstrip()))
        elif title == "Returns":
            done.append(f"**Returns.** {_line(inner)}")
        else:
            rows = _ITEM.split(inner)
            items = list(zip(rows[1::2], rows[2::2], strict=True))
            types = types or {}
            if title == "Attributes" and types:
                head = "| attribute | type | meaning |\n|---|---|---|\n"
                rows = [f"| `{one}` | `{types.get(one, '')}` | {_line(about)} |" for one, about in items]
            else:
                head = f"| {_HEADS[title]} |\n|---|---|\n"
                rows = [f"| `{one}` | {_line(about)} |" for one, about in items]
            done.append(head + "\n".join(rows))
    return "\n\n".join(done)


if __name__ == "__main__":
    INDEX.write_text(index())
