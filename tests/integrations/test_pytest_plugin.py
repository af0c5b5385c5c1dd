"""The plugin of pytest, in real runs of pytest: what leaks fails with the finding, and nothing else does."""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
QUIET = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}


class Run:
    """A run of pytest: its output, and each test's outcome and message by name."""

    def __init__(self, folder, *words):
        (folder / "pytest.ini").write_text("[pytest]\n")
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--junitxml=out.xml",
            *words,
        ]
        self.done = subprocess.run(
            command, capture_output=True, text=True, timeout=280, check=False, cwd=folder, env=os.environ | QUIET
        )
        self.output = self.done.stdout
        self.tests = {}
        if (folder / "out.xml").exists():
            for case in ET.parse(folder / "out.xml").getroot().iter("testcase"):
                failed = case.find("failure")
                self.tests[case.get("name")] = None if failed is None else failed.get("message") + "\n" + failed.text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    for name in ("planted_torch.py", "planted_arrays.py"):
        shutil.copy(PROGRAMS / name, folder)
    return folder


@pytest.fixture(scope="module")
def alone(folder):
    some = ("clean", "leak_loss", "leak_odd_key", "leak_over_its_limit", "peak_over_its_limit", "fail_is_explained")
    return Run(folder, "--tenure", "planted_arrays.py", *(f"planted_torch.py::test_{name}" for name in some))


@pytest.fixture(scope="module")
def spread(tmp_path_factory):
    """In two processes, where `tenure.install()` explains exceptions too."""
    folder = tmp_path_factory.mktemp("spread")
    shutil.copy(PROGRAMS / "planted_torch.py", folder)
    (folder / "conftest.py").write_text("import tenure\ntenure.install()\n")
    return Run(folder, "--tenure", "-n", "2", "planted_torch.py")


CODES = {
    "test_leak_loss": "TN301",
    "test_leak_cache": "TN307",
    "test_leak_hook": "TN304",
    "test_leak_exception": "TN306",
    "test_leak_thread": "TN309",
    "test_leak_over_its_limit": "TN315",
    "test_leak_odd_key": "TN315",
    "test_leak_after_a_trace": "TN312",
    "test_peak_over_its_limit": "TN502",
}
OF_ARRAYS = {
    "test_leak_jax": "TN312",
    "test_leak_tensorflow": "TN312",
    "test_peak_jax": "TN502",
    "test_peak_tensorflow": "TN502",
}


SOME = {name: CODES[name] for name in CODES if name in ("test_leak_loss", "test_leak_odd_key")}
SOME |= {name: code for name, code in CODES.items() if name.endswith("over_its_limit")}


@pytest.mark.parametrize(("how", "codes", "most"), [("alone", SOME | OF_ARRAYS, 12), ("spread", CODES, 221)])
def test_what_leaks_fails_with_the_finding_and_nothing_else_does(request, how, codes, most):
    run = request.getfixturevalue(how)
    failed = {name: text for name, text in run.tests.items() if text is not None}
    assert len(run.tests) == most, run.output[-3000:]
    assert set(failed) == {*codes, "test_fail_is_explained"}, run.output[-6000:]
    for name, code in codes.items():
        message, _, text = failed[name].partition("\n")
        assert message.startswith(f"{code} "), failed[name]
        assert f"[{code}]: " in text
        assert ("allocated here" if code == "TN502" else "created here") in text
    assert run.done.returncode == 1
    assert f"tenure: {len(run.tests)} tests watched; " in run.output


def test_the_report_has_the_birth_line_the_holder_and_the_fix(alone):
    text = alone.tests["test_leak_loss"]
    assert "the test leaked 12.5 KiB in 2 buffers" in text
    assert "loss = model(batch).mean()" in text
    assert "global planted_torch.HISTORY (planted_torch.py:" in text
    assert "fix: store a Python number instead: `loss.item()`" in text
    assert "the limit is 0 bytes" in alone.tests["test_leak_over_its_limit"]
    assert "memory rose by 4.0 MiB during the test; the limit is 1.0 MiB" in alone.tests["test_peak_over_its_limit"]
    assert "FAILED planted_torch.py::test_leak_loss - TN301 " in alone.output
    assert "the highest peak was 4.0 MiB in planted_torch.py::" in alone.output


def test_odd_names_are_text(alone):
    assert "\x1b" not in alone.output
    text = alone.tests["test_leak_odd_key"]
    assert "<script>" in text  # as text: the report is no page
    assert len(text) < 10_000


def test_an_exception_is_explained_once(alone, spread):
    assert alone.output.count("error[TN208]") == 1
    assert spread.output.count("error[TN208]") == 1


def test_a_limit_that_is_none_is_told_before_anything_runs(tmp_path):
    (tmp_path / "test_limits.py").write_text(
        "import pytest\n@pytest.mark.tenure(max_leaked='much')\ndef test_a(): pass\n"
    )
    done = Run(tmp_path, "--tenure").done
    assert done.returncode == 4
    told = done.stdout + done.stderr
    assert (
        "ERROR: test_limits.py::test_a: max_leaked is a number of bytes, or text such as \"10 MiB\"; got 'much'" in told
    )
    assert "Traceback" not in told


def test_a_run_in_which_nothing_leaks_loads_no_faults(tmp_path):
    (tmp_path / "test_clean.py").write_text("def test_clean(): pass\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\ndef pytest_unconfigure():\n    open('loaded.txt', 'w').write(' '.join(sys.modules))\n"
    )
    run = Run(tmp_path, "--tenure")
    assert "tenure: 1 test watched; nothing leaked" in run.output
    loaded = (tmp_path / "loaded.txt").read_text().split()
    assert "tenure.integrations.testing.verdicts" in loaded
    assert not {"tenure.faults", "tenure.analysis", "tenure.check", "tenure.lint", "duckdb", "pandas"} & {*loaded}


@pytest.mark.parametrize("name", ["torch", "jax", "tensorflow"])
def test_a_run_that_makes_no_tensors_passes(name, tmp_path):
    pytest.importorskip(name)
    (tmp_path / "test_none.py").write_text(f"import {name}, tenure\ndef test_none(): tenure.mark('here')\n")
    run = Run(tmp_path, "--tenure")
    assert run.done.returncode == 0, run.output + run.done.stderr
    assert "tenure: 1 test watched; nothing leaked" in run.output


def test_without_the_option_nothing_is_imported(tmp_path):
    (tmp_path / "test_loaded.py").write_text(
        "import sys\n"
        "def test_loaded(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.hasplugin('tenure')\n"
        "    loaded = [name for name in sys.modules if name.partition('.')[0] in ('tenure', 'torch', 'pyarrow', 'jax')]\n"
        "    assert sorted(loaded) == ['tenure', 'tenure.integrations', 'tenure.integrations.pytest']\n"
    )
    run = Run(tmp_path)
    assert run.tests == {"test_loaded": None}, run.output
    assert "tenure:" not in run.output


@pytest.mark.parametrize("traced", [True, False])
def test_it_starts_where_warnings_are_errors(tmp_path, traced):
    """Under trace tenure is imported before pytest marks its plugins, of which pytest warns."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\nasyncio_default_fixture_loop_scope = "function"\n'
    )
    (tmp_path / "test_one.py").write_text("def test_one():\n    import torch\n    assert torch.ones(2).sum() == 2\n")
    env = os.environ | QUIET | ({"TENURE_TRACE": str(tmp_path / "trace")} if traced else {})
    tenure = ["-m", "tenure", "run", "--quiet", "-o", str(tmp_path / "run")] if not traced else []
    command = [sys.executable, *tenure, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert list((tmp_path / ("trace" if traced else "run")).glob("*.arrows"))
