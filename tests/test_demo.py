"""`make demo` prints little, no noise, and ends with what to type next."""

import os
import subprocess
import sys
from pathlib import Path

import docs_pages
import pytest


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """All lines of both streams, as in a fresh clone. The virtual environment is the one of this test."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("Makefile", "pyproject.toml", "examples"):
        (clone / name).symlink_to(docs_pages.ROOT / name)
    bin = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "--no-print-directory", "-o", ".venv/.ready", "demo", f"BIN={bin}"],
        cwd=clone, env=environment | {"COLUMNS": "80"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout.replace(str(bin), ".venv/bin").splitlines()


def test_it_prints_at_most_sixty_lines_that_fit_a_terminal(lines):
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 110


def test_it_shows_a_run_a_check_and_what_remains(lines):
    assert [line.split()[1:3] for line in lines if line.startswith("$ ")] == [
        ["tenure", "run"],
        ["tenure", "check"],
        ["python", "examples/what_remains.py"],
    ]
    text = "\n".join(lines)
    assert text.count("TN301") > 2 and "advice[TN501]" in text
    assert all(f"\n{name}: " in text for name in docs_pages.FRAMEWORKS)


def test_it_prints_no_log_lines_and_no_long_paths(lines):
    text = "\n".join(lines)
    assert not docs_pages.LOGGED.search(text)
    assert "Warning" not in text and str(docs_pages.ROOT) not in text and "/tmp" not in text


def test_it_ends_with_what_to_type_next(lines):
    assert lines[-4] == "Type next, in this folder:"
    assert all(line.startswith("  .venv/bin/tenure ") for line in lines[-3:])
