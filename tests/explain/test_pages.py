"""The pages of the faults: what they call wrong really fails, is explained by that fault, and what they call right runs."""

import contextlib
import io
import re
import textwrap

import pytest
from programs import failed

import tenure
from tenure.faults import FAULTS

PAGES = [code for code in FAULTS if code[2] in "124"]
SILENT = {"TN403", "TN404"}  # nothing fails


def example(code, head):
    found = re.search(rf"^{head}:\n\n((?:    .*\n|\n)+)", FAULTS[code].page, re.MULTILINE)
    return textwrap.dedent(found[1])


def run(text, path):
    path.write_text(text)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, str(path), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("code", PAGES)
def test_page(code, tmp_path):
    page = FAULTS[code].page
    assert "\nWhat happens: " in page
    assert "\nWhy: " in page
    run(example(code, "Right"), tmp_path / "right.py")
    wrong = example(code, "Wrong")
    if code in SILENT:
        run(wrong, tmp_path / "wrong.py")
        return
    error, _ = failed(wrong, tmp_path / "wrong.py")
    finding = tenure.explain(error)
    assert finding is not None, error
    assert finding.code == code
    assert finding.places
    assert finding.fix
