"""The explanations in the README are what is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
PAIRS = re.findall(r"```python\n(# (\S+\.py)\n[^`]*?)```\s+```text\n(error\[.*?)```", README, re.DOTALL)


def test_there_are_three():
    assert [name for _, name, _ in PAIRS] == ["encoder.py", "losses.py", "best.py"]


@pytest.mark.parametrize(("program", "name", "expected"), PAIRS, ids=[name for _, name, _ in PAIRS])
def test_printed(program, name, expected, tmp_path):
    (tmp_path / name).write_text(program)
    hook = f"import tenure; tenure.install(); exec(compile(open({name!r}).read(), {name!r}, 'exec'))"
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", hook], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.partition("\nerror[")[2] == expected.removeprefix("error[")
