"""Which lines make a function worth following alone: the quick search finds what the patterns find."""

import re
from pathlib import Path

import pytest

from tenure.check.source_file import ALONE, FRAMEWORKS, triggers
from tenure.check.syntax import children, nodes

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("examples/*.py"), *ROOT.glob("src/**/*.py")])


def test_every_match_contains_its_bytes():
    for path in FILES:
        raw = path.read_bytes()
        for literal, pattern in ALONE.items():
            assert all(literal in match.group() for match in re.finditer(pattern, raw)), (path, literal)


def test_the_lines_are_those_of_the_patterns():
    either = re.compile(b"|".join(ALONE.values()))
    found = 0
    for path in FILES:
        raw = path.read_bytes()
        lines = sorted({raw.count(b"\n", 0, match.start()) + 1 for match in either.finditer(raw)})
        if FRAMEWORKS.search(raw) and lines:
            assert triggers(raw) == lines, path
            found += len(lines)
    assert found > 500


@pytest.mark.parametrize(
    "raw", [b"import torch\nx = jit", b"jit\nimport torch", b"torch\n\n\nloss.backward()\r\nbackward("]
)
def test_the_first_and_the_last_line_count(raw):
    either = re.compile(b"|".join(ALONE.values()))
    assert triggers(raw) == sorted({raw.count(b"\n", 0, match.start()) + 1 for match in either.finditer(raw)})


def test_nodes_are_those_of_ast():
    import ast

    for path in FILES[::10]:
        tree = ast.parse(path.read_text())
        assert [id(one) for one in nodes(tree)] == [id(one) for one in ast.walk(tree)]
        assert all(children(one) == list(ast.iter_child_nodes(one)) for one in nodes(tree))
