"""The README's programs are run, and print what the README says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
PAIRS = re.findall(r"```python\n(# (\S+\.py)\n.*?)```\s+```\n(.*?)```", README, re.DOTALL)


def test_the_readme_has_an_example_for_each_framework():
    text = "".join(program for program, _, _ in PAIRS)
    assert all(f"import {name}" in text for name in ("torch", "jax", "tensorflow"))


def amounts(text):
    """The text without what differs a little from run to run."""
    return re.sub(r"[\d,.]+ (events|KiB)", r"N \1", text)


@pytest.mark.parametrize(("program", "name", "expected"), PAIRS, ids=[name for _, name, _ in PAIRS])
def test_readme_program_prints_what_the_readme_says(program, name, expected, tmp_path):
    (tmp_path / name).write_text(program)
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    if expected.startswith("$ tenure "):
        command, _, expected = expected.removeprefix("$ tenure ").partition("\n")
        words = [sys.executable, "-m", "tenure", *command.split()]
        done = subprocess.run(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        told = done.stdout.replace(f"{tmp_path}/", "")
        assert amounts(told) == amounts(expected)
        return
    done = subprocess.run([sys.executable, name], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(f"{tmp_path}/", "") == expected
