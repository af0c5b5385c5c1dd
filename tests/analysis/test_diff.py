"""What changed between two traces, or two moments of one, against what DuckDB says of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tenure
from tenure.traces import load

sys.path.insert(0, str(Path(__file__).parents[1] / "trace"))
from made_traces import make


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    place = tmp_path_factory.mktemp("diff")
    make(place / "a")
    make(place / "b", seed=7)
    return load(place / "a"), load(place / "b")


def by_site(trace, moment, device):
    rows = trace.sql(
        f"select site, sum(bytes)::bigint as bytes, count(*) as n from buffers where device = '{device}' and bytes > 0 "
        f"and epoch_us(born) <= {moment} and (ended is null or epoch_us(ended) > {moment}) group by site"
    ).to_pylist()
    return {row["site"]: (row["bytes"], row["n"]) for row in rows}


def told(changes):
    return {one.name: (one.before, one.after, one.count_before, one.count_after) for one in changes}


def expected(before, after):
    found = {"new": {}, "gone": {}, "grown": {}, "shrunk": {}}
    for name in {**before, **after}:
        (old, many), (new, more) = before.get(name, (0, 0)), after.get(name, (0, 0))
        which = "new" if not old else "gone" if not new else "grown" if new > old else "shrunk"
        if old != new:
            found[which][name] = (old, new, many, more)
    return found


def check(found, before, after):
    for name, changes in expected(before, after).items():
        assert told(getattr(found, name)) == changes
    assert (found.before, found.after) == (sum(b for b, _ in before.values()), sum(b for b, _ in after.values()))
    assert sum(one.bytes for one in found.kinds) == found.bytes
    order = [abs(one.bytes) for one in found.new]
    assert order == sorted(order, reverse=True)


def test_two_traces_at_their_peaks(traces):
    a, b = traces
    found = a.diff(b)
    assert found.device == "cuda:0"
    moments = [round(one.peak().time.timestamp() * 1e6) for one in traces]
    check(found, by_site(a, moments[0], "cuda:0"), by_site(b, moments[1], "cuda:0"))


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_two_steps_of_one(traces, device):
    a, _ = traces
    times = {row["step"]: round(row["ended"].timestamp() * 1e6) for row in a.steps().to_pylist()}
    check(a.diff(at=2, to=8, device=device), by_site(a, times[2], device), by_site(a, times[8], device))


def test_moments_in_seconds_and_as_times(traces):
    a, _ = traces
    began = a.scanned.facts[0]
    peak = a.peak()
    found = a.diff(at=0.002, to=peak.time)
    check(found, by_site(a, began + 2000, "cuda:0"), by_site(a, round(peak.time.timestamp() * 1e6), "cuda:0"))
    assert "at 0.00 s" in found.names[0]


def test_a_trace_and_itself_differ_in_nothing(traces):
    a, _ = traces
    found = a.diff(a)
    assert (found.new, found.gone, found.grown, found.shrunk, found.kinds, found.bytes) == ((), (), (), (), (), 0)


def test_what_cannot_be_compared_is_said(traces):
    a, b = traces
    with pytest.raises(TypeError, match="needs another trace, or two points in time"):
        a.diff()
    with pytest.raises(tenure.TraceError, match="has no step 4000"):
        a.diff(at=1, to=4000)
    with pytest.raises(TypeError, match="not str"):
        a.diff(at="yesterday")


def call(*words):
    return subprocess.run(
        [sys.executable, "-m", "tenure", *map(str, words)], capture_output=True, text=True, check=False
    )


def test_the_verb(traces):
    a, b = traces
    done = call("diff", a.path, b.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == str(a.diff(b)) + "\n"
    assert (
        json.loads(call("diff", a.path, "--at", "2", "--to", "8", "--format", "json").stdout)["before"]
        == a.diff(at=2, to=8).before
    )
    lines = call("diff", a.path, b.path, "--format", "concise").stdout.splitlines()
    assert len(lines) == sum(len(part) for part in (a.diff(b).new, a.diff(b).grown, a.diff(b).shrunk, a.diff(b).gone))


@pytest.mark.parametrize("words", [[], ["--at", "soon"], ["--at", "1", "--to", "9999"]])
def test_wrong_usage_is_one_line(traces, words):
    done = call("diff", traces[0].path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
