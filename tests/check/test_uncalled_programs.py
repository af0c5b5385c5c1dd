"""The same programs with their driver in a function that nothing calls: a module whose caller is in another file."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

BATCHES = Path(__file__).parents[1] / "first_contact"
KNOWN = set(tomllib.loads((BATCHES / "known_misses.toml").read_text())["check"]["missed"])
KNOWN_ALARMS = set(tomllib.loads((BATCHES / "known_misses.toml").read_text())["check"]["alarms"])
_KEPT = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)


def names_of(statements, context):
    nodes = [one for statement in statements for one in ast.walk(statement)]
    found = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, context)}
    return found | {name for one in nodes if isinstance(one, ast.Global) for name in one.names}


def move(text):
    """Put all that follows the last definition into a function; also return its first line, and by how much lines moved."""
    body = ast.parse(text).body
    last = max((i for i, one in enumerate(body) if isinstance(one, _KEPT)), default=-1)
    above, driver = body[: last + 1], body[last + 1 :]
    if not driver:
        return text, 0, 0
    shared = sorted(names_of(driver, ast.Store) & names_of(above, ast.Load))
    first, lines = driver[0].lineno, text.split("\n")
    head = ["def drive():"] + ([f"    global {', '.join(shared)}"] if shared else [])
    return "\n".join([*lines[: first - 1], *head, *("    " + line for line in lines[first - 1 :])]), first, len(head)


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """The cases with a copy of their programs, moved, and what is found there."""
    root = tmp_path_factory.mktemp("moved")
    cases = []
    for path in sorted(BATCHES.glob("batch_*/*/case.toml")):
        case = tomllib.loads(path.read_text()) | {"folder": root / path.parent.name, "moved": (0, 0)}
        case["folder"].mkdir()
        for file in path.parent.glob("*.py"):
            text = file.read_text()
            if file.name in ("bug.py", "fixed.py"):
                text, first, lines = move(text)
                if file.name == "bug.py":
                    case["moved"] = first, lines
            (case["folder"] / file.name).write_text(text)
        cases.append(case)
    command = [sys.executable, "-m", "tenure", "check", "--no-cache", "--isolated", "--format", "json", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    found = {}
    for finding in json.loads(done.stdout):
        found.setdefault(finding["file"], []).append(finding)
    return cases, found


def is_found(case, findings):
    first, by = case["moved"]
    labelled = {case["birth_line"], case["use_line"], *case.get("lines", [])}
    labelled = {line + by if line >= first else line for line in labelled}
    for finding in findings:
        sites = [finding, *finding.get("sites", [])]
        lines = [one["line"] for one in sites if one.get("line") and Path(one.get("file") or "").name == "bug.py"]
        if finding["code"] in case["codes"] and any(abs(line - label) <= 1 for line in lines for label in labelled):
            return True
    return False


def test_nine_of_ten_are_found_without_a_caller(moved):
    cases, found = moved
    wanted = [one for one in cases if one["kind"] != "clean" and one["static"] and one["id"] not in KNOWN]
    missed = [one["id"] for one in wanted if not is_found(one, found.get(str(one["folder"] / "bug.py"), []))]
    assert len(wanted) > 50
    assert len(missed) <= len(wanted) / 10, missed


def test_correct_programs_stay_free_of_findings(moved):
    cases, found = moved
    alarms = {
        one["id"]: [(finding["code"], finding["line"]) for finding in findings]
        for one in cases
        if (findings := [f for f in found.get(str(one["folder"] / "fixed.py"), []) if f["code"][2] in "1234"])
    }
    assert alarms.keys() <= KNOWN_ALARMS
