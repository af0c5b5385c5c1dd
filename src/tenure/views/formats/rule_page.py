"""The page of a rule as text for a terminal; its Markdown source is the docstring of the rule's module."""

from __future__ import annotations

import re
import textwrap

from tenure.faults.base import Fault

_WIDTH = 100
_FIXED = "\x00"  # a space in `code`, at which no line may break


def render(fault: Fault, *, colour: bool = False) -> str:
    """Return the page: headings at the margin, everything below them indented."""
    bold, off = ("\x1b[1m", "\x1b[0m") if colour else ("", "")
    lines = [f"{bold}{fault.code} {fault.name}{off}", ""]
    indent = ""
    for part in re.split(r"\n\n(?=\S)", fault.page.strip()):
        if part.startswith("## "):
            heading, _, code = part.removeprefix("## ").partition("\n\n")
            indent = "  "
            lines.append(f"{bold}{heading}{off}")
            lines += [*textwrap.indent(code, indent).splitlines(), ""] if code else []
        else:
            text = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", _FIXED), " ".join(part.split()))
            wrapped = textwrap.wrap(
                text,
                _WIDTH,
                initial_indent=indent,
                subsequent_indent=indent,
                break_on_hyphens=False,
                break_long_words=False,
            )
            lines += [*(line.replace(_FIXED, " ") for line in wrapped), ""]
    return "\n".join(lines).rstrip() + "\n"
