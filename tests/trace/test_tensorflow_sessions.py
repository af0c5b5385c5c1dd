"""What sessions of TensorFlow take and give is recorded with its lines, natively and in Python."""

import os
import re
import subprocess
import sys

import pytest

import tenure
from tenure.analysis.summary import summary
from tenure.views.console import report

pytest.importorskip("tensorflow")

PROGRAM = """
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
x = v1.placeholder(tf.float32, (None, 64))
w = v1.get_variable("w", (64, 8), initializer=v1.ones_initializer())
y, loss = tf.matmul(x, w), tf.reduce_mean(x)
data = np.ones((1024, 64), np.float32)
kept = []
with v1.Session() as session:
    session.run(v1.global_variables_initializer())
    for turn in range(60):
        found, number = session.run([y, loss], {x: data[turn : turn + 128]})  # in turn
        if turn % 20 == 0:
            kept.append(found)
    session.run(loss, {x: [[1.0] * 64]})
    again = session.run(y, {x: np.concatenate([kept[0]] * 8, axis=1)})  # again
    called = session.make_callable(y, [x])(data)  # called
    print(float(number), len(kept), again.shape, called.shape)
    try:
        session.run(v1.Variable(1.0))
    except tf.errors.FailedPreconditionError as error:
        print("not initialized", error.op.type)
    session.run(tf.debugging.assert_equal(1, 2))
"""


def run(folder, *words, **environment):
    (folder / "s.py").write_text(PROGRAM)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TENURE")}
    clean |= {"TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    call = [sys.executable, *words, "s.py"]
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, env=clean, timeout=200, check=False)


def line(name):
    return next(at for at, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"# {name}"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run(tmp_path_factory.mktemp("plain"))


def traceback(done):
    """The part of standard error that is the program's own, without the folder."""
    text = done.stderr.partition("Traceback")[2].partition("\ntenure: ")[0].rstrip()
    return re.sub(r'File "[^"]*/', 'File "', text)


@pytest.mark.parametrize("native", ["1", "0"])
def test_what_a_session_takes_and_gives(native, plain, tmp_path):
    done = run(tmp_path, "-m", "tenure", "run", "-o", "t", TENURE_NATIVE=native)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (1, plain.stdout)
    if native == "1":  # in Python, a frame of the recorder is in the traceback
        assert traceback(done) == traceback(plain)
    trace = tenure.load(tmp_path / "t")
    rows = [row for row in trace.buffers().to_pylist() if row["op"] == "Session.run"]
    lines = {(row["line"], row["kind"] == "input", row["shape"]) for row in rows}
    assert lines >= {
        (line("in turn"), True, "[1024, 64]"),  # the whole array, of which parts are fed
        (line("in turn"), False, "[128, 8]"),
        (line("again"), True, "[128, 64]"),
        (line("again"), False, "[128, 8]"),
        (line("called"), False, "[1024, 8]"),
    }
    (whole,) = [row for row in rows if row["shape"] == "[1024, 64]"]
    assert whole["uses"] >= 61  # by each run, and when it ends
    given = [row for row in rows if (row["line"], row["shape"]) == (line("in turn"), "[128, 8]")]
    assert len(given) == 60
    assert all(row["bytes"] == 128 * 8 * 4 and row["framework"] == "tensorflow" for row in given)
    assert sum(row["ended"] is None for row in given) <= 4  # the three that are kept, and the last
    # What NumPy does with them is not seen: nothing is said to be past its last use, and nothing to be let go.
    found = summary(trace, trace.scanned, trace.peak())
    assert found.peak.past == 0
    assert [one.code for one in trace.findings() if one.code != "TN502"] == []
    text = " ".join(report.render(found, trace.findings()).split())
    assert "Summary: no leak found, but not everything was checked." in text
    assert "leaks only partly checked: arrays that Session.run takes and returns are not checked for leaks" in text
    assert "peak only partly checked: memory inside Session.run, of variables and intermediate values, is not" in text
