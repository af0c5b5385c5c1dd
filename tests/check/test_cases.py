"""The examples in cases/*.md: what must be found, on which line, and what must not."""

import re
from pathlib import Path

import pytest

from tenure.lint.runner import check_source

CASES = sorted((Path(__file__).parent / "cases").glob("*.md"))
BLOCK = re.compile(r"```python (fires|silent)\n(.*?)```", re.DOTALL)
MARK = re.compile(r"#\s*(TN\d{3})\b")


def blocks():
    for file in CASES:
        text = file.read_text()
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield pytest.param(match[1], match[2], id=f"{file.stem}:{line}")


@pytest.mark.parametrize(("kind", "source"), list(blocks()))
def test_example(kind, source):
    found = {(f.code, f.main.line) for f in check_source(source, "example.py")}
    told = {(mark, n) for n, line in enumerate(source.splitlines(), 1) for mark in MARK.findall(line)}
    if kind == "silent":
        assert not found
    else:
        places = {(f.code, p.line) for f in check_source(source, "example.py") for p in f.places}
        assert told <= places
        assert {code for code, _ in found} <= {code for code, _ in told}
