"""Source that was changed since it ran: no line is shown, named or edited that did not run."""

import linecache
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tenure
from tenure.analysis.summary import summary
from tenure.explain import driver
from tenure.explain.text import parse
from tenure.views.console import report
from tenure.views.formats import full

EXAMPLE = Path(__file__).parents[2] / "examples" / "leaking_training.py"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE")}


def test_a_report_of_source_that_was_changed_since(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    shutil.copy(EXAMPLE, script)
    call = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", "t", "train.py"]
    subprocess.run(call, cwd=tmp_path, env=CLEAN, check=True, capture_output=True, timeout=100)
    (same,) = tenure.load(tmp_path / "t").faults()
    born = next(place for place in same.places if place.role == "birth")
    assert "loss = " in born.text
    assert any(place.role == "holder" and ".append(" in place.text for place in same.places)
    assert same.fix.edits

    script.write_text("# one line more\n" * 3 + script.read_text())
    trace = tenure.load(tmp_path / "t")
    (finding,) = trace.faults()
    assert (finding.code, finding.fix.edits) == (same.code, ())
    assert [(place.line, place.text) for place in finding.places] == [
        (born.line, "(the file was changed since this was recorded)")
    ]
    text = report.render(summary(trace, trace.scanned, trace.peak()), trace.findings())
    assert "held here" not in text
    assert f"{script} was changed since this was recorded" in text


LOG = """Traceback (most recent call last):
  File "{script}", line 5, in <module>
    second.backward()
  File "/usr/lib/python3/dist-packages/torch/_tensor.py", line 623, in backward
    torch.autograd.backward(
RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.
"""


def explained(text):
    (raised,) = parse(text)
    return full.render([driver.find(raised)])


def test_a_log_that_is_older_than_the_file_is_explained_with_its_own_line(tmp_path):
    script = tmp_path / "losses.py"
    lines = ["import torch", "code = make()", "first = code.sum()", "first.backward()", "second.backward()"]
    script.write_text("\n".join(lines))
    text = LOG.format(script=script)
    assert "5 |     second.backward()" in explained(text)
    script.write_text("\n".join(["# one line more", *lines]))
    linecache.checkcache()
    shown = explained(text)
    assert "5 |     second.backward()" in shown
    assert "first.backward()" not in shown
