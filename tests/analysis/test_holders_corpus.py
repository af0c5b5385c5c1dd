"""The leaking programs of the corpus: what piles up in them is held by a name that the program's own text gives away."""

from __future__ import annotations

import ast
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
CASES = [
    path.parent for path in sorted(CORPUS.glob("*/*/case.toml")) if tomllib.loads(path.read_text())["kind"] == "leak"
]
PROBE = Path(__file__).with_name("leak_probe.py")
STEPS = "6"
# Where compiled programs or graph nodes pile up, and no tensors in Python.
PILES_OF_PROGRAMS = ("cache-growth", "retrace-growth", "graph-growth")

pytestmark = pytest.mark.skipif(not CASES, reason=f"no corpus at {CORPUS}")


def answers(cases):
    """What the probe was told, by program."""
    program = [sys.executable, "-W", "ignore", str(PROBE), *(str(case / "bug.py") for case in cases)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env={**os.environ, "STEPS": STEPS})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def names_on(source, line):
    """What a line puts things into, if it says: `losses` for `self.losses.append(x)`, `total` for `total += x`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if getattr(node, "lineno", None) != line and line not in {
            at.lineno for at in getattr(node, "decorator_list", ())
        }:
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


def fault(case, asked):
    """What is wrong with the answers for a program; empty if nothing is."""
    if asked is None:
        return "the program failed under the probe"
    told = tomllib.loads((case / "case.toml").read_text())
    if not all(holders and holders[0][0] != "native" for holders in asked):
        return f"something is held by nobody that has a name: {asked}"
    expected = names_on((case / "bug.py").read_text(), told["use_line"])
    if told["category"] in PILES_OF_PROGRAMS or not expected:
        return ""
    names = [name for holders in asked for _, name in holders]
    found = any(re.search(rf"\b{one}\b", name) for one in expected for name in names)
    return "" if found else f"none of {expected} is in {names}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["torch", "jax", "tensorflow"])
def test_what_piles_up_has_a_named_holder(name, request):
    request.getfixturevalue({"tensorflow": "tf"}.get(name, name))
    cases = [case for case in CASES if case.parent.name == name]
    asked = answers(cases)
    faults = {case.name: fault(case, asked[str(case / "bug.py")]) for case in cases}
    assert cases
    assert not any(faults.values()), {case: text for case, text in faults.items() if text}
