"""The comparison of other projects' suites: what it calls the same, flaky and different; each test in its scope."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).parent

SUITE = """
import unittest

import numpy
import pytest

import tenure
from tenure.lifetime import regions

class OfUnittest(unittest.TestCase):
    def test_inside(self):
        assert [region.name for region in regions.opened()] == ["test_inside"]

    def test_of_parts(self):
        for part in range(2):
            with self.subTest(part=part):
                assert part == 0

@pytest.fixture
def outside():
    assert not regions.opened()
    yield
    assert not regions.opened()

def test_inside(outside):
    assert [region.name for region in regions.opened()] == ["test_inside"]

def test_seed(): assert numpy.random.rand() == numpy.random.RandomState(0).rand()
def test_seed_again(): test_seed()
def test_skips(): pytest.skip("so")
@pytest.mark.xfail
def test_fails_as_expected(): assert False
@pytest.mark.xfail
def test_passes_unexpected(): pass
@pytest.fixture
def ends_badly():
    yield
    raise OSError("of the teardown")
def test_teardown(ends_badly): pass
def test_dies():
    import os
    os._exit(3)
def test_never_begins(): pass
"""


@pytest.fixture
def ours(monkeypatch):
    """The modules of the harness, which import one another by name."""
    monkeypatch.syspath_prepend(str(HERE))
    import compare
    import outcomes

    yield SimpleNamespace(compare=compare, outcomes=outcomes)
    for name in ("compare", "outcomes", "fetch", "suites"):
        sys.modules.pop(name, None)


def test_outcomes_of_a_suite_in_scopes_that_dies(tmp_path, ours):
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    env = {**os.environ, "PYTHONPATH": str(HERE), "FOREIGN_OUTCOMES": str(tmp_path / "found"), "FOREIGN_SCOPE": "1"}
    program = [sys.executable, "-m", "pytest", "-p", "outcomes", "-p", "no:cacheprovider", "-q", "test_it.py"]
    done = subprocess.run(program, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stdout
    found = {
        test.rpartition("::")[2]: outcome for test, (outcome, why) in ours.outcomes.read(tmp_path / "found").items()
    }
    assert found == {
        "test_inside": "passed", "test_of_parts": "failed", "test_seed": "passed", "test_seed_again": "passed",
        "test_skips": "skipped", "test_fails_as_expected": "xfailed", "test_passes_unexpected": "xpassed",
        "test_teardown": "error", "test_dies": "not ended",
    }  # fmt: skip


def test_differences_flaky_and_named(ours):
    compare = ours.compare
    ok, bad = ("passed", None), ("failed", "why")
    plain = {"f.py::a": ok, "f.py::b": ok, "f.py::c": ok, "f.py::d": bad, "f.py::e": ok}
    other = {"f.py::a": ok, "f.py::b": bad, "f.py::c": bad, "f.py::d": ok}
    found = compare.differing(plain, other)
    assert sorted(found) == ["f.py::b", "f.py::c", "f.py::d", "f.py::e"]
    assert found["f.py::e"] == (ok, ("not run", None))
    result = compare.Compared(len(plain), 1, 1)
    compare.sort_out(result, found, [plain, plain | {"f.py::b": bad}], {"::c": "the reason"})
    assert sorted(result.flaky) == ["f.py::b"]
    assert sorted(result.named) == ["f.py::c"]
    assert sorted(result.different) == ["f.py::d", "f.py::e"]
    assert result.same == 1
    assert not result.is_clean


def test_another_exit_code_is_a_difference(ours):
    assert not ours.compare.Compared(5, 0, 139).is_clean
    assert ours.compare.Compared(5, 1, 1).is_clean
