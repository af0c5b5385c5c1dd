"""The leaking programs of the corpus: what piles up in them is held by a name that the program's own text gives away."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
CASES = [path.parent for path in sorted(CORPUS.glob("*/*/case.toml")) if tomllib.loads(path.read_text())["kind"] == "leak"]
PROBE = Path(__file__).with_name("leak_probe.py")
STEPS = "6"
# Where compiled programs or graph nodes pile up, and no tensors in Python.
PILES_OF_PROGRAMS = ("cache-growth", "retrace-growth", "graph-growth")

pytestmark = pytest.mark.skipif(not CASES, reason=f"no corpus at {CORPUS}")


@functools.cache
def answers(framework):
    programs = [str(case / "bug.py") for case in CASES if case.parent.name == framework]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROBE), *programs],
        capture_output=True, text=True, check=False, timeout=280, env={**os.environ, "STEPS": STEPS},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def names_on(source, line):
    """What a line puts things into, if it says: `losses` for `self.losses.append(x)`, `total` for `total += x`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if getattr(node, "lineno", None) != line and line not in {at.lineno for at in getattr(node, "decorator_list", ())}:
            continue
        match node:
            case ast.Expr(ast.Call(ast.Attribute(_, "backward"))):
                found |= {"autograd"}
            case ast.Expr(ast.Call(ast.Attribute(receiver, method))):
                found |= {"hook" if method.startswith("register_") else last_name(receiver)}
            case ast.Assign(targets):
                found |= {last_name(target) for target in targets}
            case ast.AugAssign(target) | ast.AnnAssign(target):
                found |= {last_name(target)}
            case ast.FunctionDef(name):  # decorated on this line: a cache
                found |= {name}
    return found - {None}


def last_name(node):
    match node:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
        case ast.Subscript(inner) | ast.Call(ast.Attribute(inner)):
            return last_name(inner)
    return None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_piles_up_has_a_named_holder(case):
    told = tomllib.loads((case / "case.toml").read_text())
    asked = answers(case.parent.name)[str(case / "bug.py")]
    assert asked is not None, "the program failed under the probe"
    for holders in asked:
        assert holders, asked
        assert holders[0][0] != "native", asked
    if told["category"] in PILES_OF_PROGRAMS:
        return
    expected = names_on((case / "bug.py").read_text(), told["use_line"])
    names = [name for holders in asked for _, name in holders]
    assert not expected or any(re.search(rf"\b{one}\b", name) for one in expected for name in names), (expected, names)
