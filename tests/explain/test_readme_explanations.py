"""The explanations that the README and the tutorials show below a traceback are those that `install()` prints."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import docs_pages
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    docs_pages.read(ROOT / name) for name in ("README.md", "docs/tutorials/tensorflow.md", "docs/tutorials/jax.md")
]
_EXPLAINED = re.compile(r"\A\.\.\.\n(error\[TN[12]\d\d\].*?\n)\.\.\.\s*\Z", re.DOTALL)
SHOWN = [
    (command.split()[-1], match[1], page)
    for page in PAGES
    for command, shown in page.sessions
    if (match := _EXPLAINED.match(shown))
]


def test_there_is_one_for_each_framework():
    assert [name for name, _, _ in SHOWN] == ["examples/losses.py", "encoder.py", "best.py"]


@pytest.mark.parametrize(("name", "expected", "page"), SHOWN, ids=[name for name, _, _ in SHOWN])
def test_printed(name, expected, page, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for file, program in page.programs.items():
        (tmp_path / file).write_text(program)
    hook = f"import tenure; tenure.install(); exec(compile(open({name!r}).read(), {name!r}, 'exec'))"
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", hook], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.partition("\nerror[")[2] == expected.removeprefix("error[")
