"""Mutated programs: findings or one line, never an error of tenure's own. More of them: benchmarks/check_fuzz.py."""

import importlib.util
import random
from pathlib import Path

from tenure.check.one_file import check_bytes

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
        assert "tenure's own" not in check_bytes(raw, f"mutant{number}.py").problem
