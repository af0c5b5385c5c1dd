"""Mutated programs: findings or one line, never an internal error. More of them: benchmarks/check_fuzz.py."""

import importlib.util
import random
from pathlib import Path

from tenure.lint import one_file
from tenure.lint.one_file import check_bytes

ROOT = Path(__file__).parent.parent.parent


def test_mutants(monkeypatch):
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("check_fuzz", ROOT / "benchmarks" / "check_fuzz.py")
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    begin = fuzz.sources([ROOT / "src" / "tenure" / "check"])
    chance = random.Random(3)
    for number in range(300):
        raw = fuzz.TOUCH + fuzz.mutated(chance.choice(begin), chance, begin)
        assert one_file.INTERNAL_ERROR not in check_bytes(raw, f"mutant{number}.py").problem


def test_an_internal_error_is_one_line_that_says_so(monkeypatch):
    monkeypatch.setattr(one_file, "follow", lambda *_: 1 / 0)
    problem = check_bytes(b"import torch\nloss.backward()\n", "a.py").problem
    assert problem == f"{one_file.INTERNAL_ERROR}: ZeroDivisionError: division by zero"
