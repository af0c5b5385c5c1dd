"""Source that was changed since it ran: no line is shown, named or edited that did not run."""

import linecache
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tenure
from tenure import untrusted
from tenure.analysis.summary import summary
from tenure.explain import driver
from tenure.explain.text import parse
from tenure.views.console import report
from tenure.views.formats import full

EXAMPLE = Path(__file__).parents[2] / "examples" / "leaking_training.py"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE")}


def run(folder, script, out="t"):
    call = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", out, script]
    subprocess.run(call, cwd=folder, env=CLEAN, check=True, capture_output=True, timeout=100)
    return tenure.load(folder / out)


def reported(trace):
    with untrusted.reading(trace.source):
        return report.render(summary(trace, trace.scanned, trace.peak()), trace.findings())


def forget_source(trace):
    """Make the trace one of an older version, which has no copies of source files."""
    for file in trace.path.glob("sources-*.jsonl"):
        file.unlink()
    return tenure.load(trace.path)


@pytest.fixture
def leaking(tmp_path):
    pytest.importorskip("torch")
    shutil.copy(EXAMPLE, tmp_path / "train.py")
    trace = run(tmp_path, "train.py")
    (finding,) = trace.faults()
    birth = next(place for place in finding.places if place.role == "birth")
    assert "loss = " in birth.text
    assert any(place.role == "holder" and ".append(" in place.text for place in finding.places)
    return trace, finding, tmp_path / "train.py"


def test_a_report_shows_the_source_that_ran(leaking):
    trace, same, script = leaking
    script.write_text("# one line more\n" * 3 + script.read_text().replace(".append(value)", ".append(value.item())"))
    trace = tenure.load(trace.path)
    (finding,) = trace.faults()
    assert finding.places == same.places
    assert (finding.fix.message, finding.fix.edits) == (same.fix.message, ())
    text = reported(trace)
    assert "stored here" in text
    assert ".append(value)" in text
    assert "item().item()" not in text
    assert "one line more" not in text
    assert f"{script} was changed since the run; its lines are shown as they were then" in text


def test_a_file_that_was_only_touched_is_not_a_changed_one(leaking):
    trace, same, script = leaking
    os.utime(script)
    (finding,) = tenure.load(trace.path).faults()
    assert finding == same


def test_a_report_without_copies_of_source_that_was_changed_since(leaking):
    trace, same, script = leaking
    birth = next(place for place in same.places if place.role == "birth")
    script.write_text("# one line more\n" * 3 + script.read_text())
    trace = forget_source(trace)
    (finding,) = trace.faults()
    assert (finding.code, finding.fix.edits) == (same.code, ())
    assert [(place.line, place.text) for place in finding.places] == [
        (birth.line, "(the file was changed since this was recorded)")
    ]
    text = reported(trace)
    assert "stored here" not in text
    assert "one line more" not in text
    assert f"advice not shown: {script} was changed since the run" in text
    trace.to_html(trace.path.parent / "page.html")
    assert "one line more" not in (trace.path.parent / "page.html").read_text()


HIDDEN = """
import torch

def score(images):
    hidden = images @ torch.ones(512, 2048)
    low = hidden[:, :8].clone()
    return torch.ones(1024, 1024) * low.sum()

with torch.no_grad():
    print(score(torch.ones(1024, 512)).sum())
"""


def test_advice_is_that_of_the_source_that_ran(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "score.py"
    script.write_text(HIDDEN)
    before = run(tmp_path, "score.py", "before")
    (advice,) = [one for one in before.findings() if one.code == "TN501"]
    assert "del hidden" in advice.fix.message
    assert advice.fix.edits
    script.write_text(HIDDEN.replace("clone()\n", "clone()\n    del hidden\n"))
    trace = tenure.load(tmp_path / "before")
    (still,) = [one for one in trace.findings() if one.code == "TN501"]
    assert (still.fix.message, still.places, still.fix.edits) == (advice.fix.message, advice.places, ())
    trace = forget_source(trace)
    assert [one.code for one in trace.findings() if one.code == "TN501"] == []
    assert f"advice not shown: {script} was changed since the run" in reported(trace)


KEPT = """import torch

first = torch.ones(1024, 512)
second = torch.ones(1024, 1024)
third = torch.ones(1024, 256)
print(len(first) + len(second) + len(third))
"""


def test_a_comparison_names_lines_as_they_were_in_each_run(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "kept.py"
    script.write_text(KEPT)
    run(tmp_path, "kept.py", "before")
    # Two lines more at the top; the second line is gone, and the third makes less.
    changed = KEPT.replace("torch\n", "torch\nimport sys\nsys.gettrace()\n", 1)
    changed = changed.replace("second = torch.ones(1024, 1024)\n", "").replace(" + len(second)", "")
    script.write_text(changed.replace("(1024, 256)", "(1024, 128)"))
    after = run(tmp_path, "kept.py", "after")
    before = tenure.load(tmp_path / "before")
    found = before.diff(after)
    assert [(one.line, one.text) for one in found.gone] == [(4, "second = torch.ones(1024, 1024)")]
    assert [(one.line, one.text) for one in found.shrunk] == [(6, "third = torch.ones(1024, 128)")]
    assert (found.new, found.grown, found.notes) == ((), (), ())
    assert found.kinds

    found = forget_source(before).diff(after)
    assert found.notes == (f"{script} was changed since before recorded it: lines are compared by their numbers",)
    assert {one.text for one in found.gone} == {"(the file was changed since this was recorded)"}


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
