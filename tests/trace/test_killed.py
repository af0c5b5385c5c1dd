"""What is lost when a process is killed or the disk is full: at most the last moments, never the trace; and how large
traces and the recorder's memory get."""

import json
import os
import random
import shutil
import subprocess
import sys
import time

import pytest
from made_traces import ENVIRONMENT

from tenure.errors import TraceError
from tenure.trace.reader import load

_LOST = 200_000  # microseconds that may be lost

# Tells the time of each event when it is recorded. A busy machine may take the processor away from the writer just as
# it takes it from this loop, which asks for 0.2 ms of sleep; so the longest turn of the loop is told too, and forgiven.
PROGRAM = """
import os, sys, time
from pathlib import Path
from tenure.trace.recorder import Recorder

recorder = Recorder(Path(sys.argv[1]))
recorder.start()
sink = recorder._rows
before, longest = time.monotonic_ns(), 0
while True:
    now = time.monotonic_ns()
    longest, before = max(longest, now - before), now
    buffer = sink.born("torch", 1024, "cpu", "aten::mm", (256,), "float32", "/x.py:3 in f", "", now)
    sink.used(buffer, "aten::add", "/x.py:4 in f", now)
    if buffer % 3:
        sink.ended(buffer, "last reference", "/x.py:5 in f", now)
    os.write(1, b"%d %d\\n" % ((now + recorder._offset) // 1000, longest // 1000))
    time.sleep(0.0002)
"""


def kill_and_look(folder, seconds):
    """What the trace of a killed process misses, in microseconds, and what of that is forgiven."""
    with (folder.parent / "told").open("w+b") as told:
        words = [sys.executable, "-c", PROGRAM, str(folder)]
        with subprocess.Popen(words, stdout=told, env=ENVIRONMENT) as child:
            while os.fstat(told.fileno()).st_size == 0:
                assert child.poll() is None
                time.sleep(0.005)
            time.sleep(seconds)
            child.kill()
        told.seek(0)
        lines = told.read().splitlines()[:-1]  # of which the last may be half a line
    stamps = [int(line.split()[0]) for line in lines]
    slack = int(lines[-1].split()[1])
    try:
        trace = load(folder)
    except TraceError as error:  # killed before the first batch
        assert "contains no events" in str(error)
        return stamps[-1] - stamps[0], slack
    assert [note for note in trace.notes if "did not close its stream" in note]
    times = trace.sql("select epoch_us(time) as t from events where event = 'birth' order by t")["t"].to_pylist()
    assert times == stamps[: len(times)] or stamps == times[: len(stamps)]  # no holes
    return max(0, stamps[-1] - times[-1]), slack


def kill_often(tmp_path, times, seed):
    rng = random.Random(seed)
    lost = []
    for turn in range(times):
        place = tmp_path / str(turn)
        place.mkdir()
        missing, slack = kill_and_look(place / "trace", rng.uniform(0, 1.5))
        assert missing <= _LOST + slack, (missing, slack)
        lost.append(missing)
    print("lost, in ms:", sorted(round(missing / 1000) for missing in lost))


def test_a_killed_process_leaves_its_trace(tmp_path):
    kill_often(tmp_path, 6, seed=1)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_twenty_killed_processes_leave_their_traces(tmp_path):
    kill_often(tmp_path, 20, seed=2)


# ------------------------------------------------------------------------------------------ a full disk

FILLING = """
import resource, signal, sys, time
from pathlib import Path
from tenure.trace.recorder import Recorder

limit = int(sys.argv[2])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
recorder = Recorder(Path(sys.argv[1]))
recorder.start()
sink = recorder._rows
for turn in range(int(sys.argv[3])):
    for number in range(100):
        # Words that are never the same twice fill a disk quickly.
        sink.born("torch", 8, "cpu", f"op {turn} {number} {hash((turn, number))}", (number,), "float32", f"/x.py:{number} in f")
    time.sleep(0.02)
recorder.stop()
print("the script went on")
sys.exit(7)
"""


def check_the_script_went_on(done):
    assert done.returncode == 7, done.stderr
    assert done.stdout == "the script went on\n"
    assert done.stderr.count("\n") == 1
    assert "cannot write to the trace" in done.stderr
    assert "the trace is kept up to here, and the script continues" in done.stderr


def check_the_trace_is_kept(folder):
    trace = load(folder)
    assert sum(process.events for process in trace.processes) >= 100
    assert trace.buffers().num_rows >= 100
    assert [note for note in trace.notes if "did not close its stream" in note]


def test_a_file_that_may_not_grow_ends_the_trace_not_the_script(tmp_path):
    words = [sys.executable, "-c", FILLING, str(tmp_path / "trace"), "100000", "100"]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    check_the_script_went_on(done)
    check_the_trace_is_kept(tmp_path / "trace")


def can_mount():
    return shutil.which("unshare") and subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="a small disk cannot be mounted here")
@pytest.mark.parametrize("kib", [92, 128, 132, 200])
def test_a_full_disk_ends_the_trace_not_the_script(tmp_path, kib):
    """The disk is full for the stream or for its sums, whichever comes to it."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    script = (
        'place="$2"; mount -t tmpfs -o size="$1"k none "$place" || exit 99; shift 2; "$@"; code=$?; '
        'cp -r "$place/trace" "$KEPT"; exit $code'
    )
    program = [sys.executable, "-c", FILLING, str(disk / "trace"), "0", "100"]
    words = ["sh", "-c", script, "sh", str(kib), str(disk), *program]
    done = subprocess.run(
        ["unshare", "-rm", *words], capture_output=True, text=True, env={**ENVIRONMENT, "KEPT": str(kept)}, check=False
    )
    if done.returncode == 99:
        pytest.skip("a small disk cannot be mounted here")
    check_the_script_went_on(done)
    check_the_trace_is_kept(kept)


# ------------------------------------------------------------------------------------------ size

MANY = """
import json, resource, sys, time
from pathlib import Path
from tenure.trace.recorder import Recorder

def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

folder, wanted, rate = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
recorder = Recorder(folder)
recorder.start()
sink = recorder._rows
stacks = [f"/home/me/project/train.py:{n} in step\\n/home/me/project/train.py:{n + 100} in main" for n in range(190)]
ops = [f"aten::op_{n}" for n in range(30)]
shapes = [(2**a, 2**b) for a in range(4, 10) for b in range(4, 10)]

def turn():
    # One training step: 500 buffers, each used once, and alive for 50 births.
    ids = []
    for k in range(500):
        a, b = shape = shapes[k % 36]
        ids.append(sink.born("torch", a * b * 4, "cpu", ops[k % 30], shape, "float32", stacks[k % 190], "activation"))
        sink.used(ids[k // 2], ops[(k + 1) % 30], stacks[(k + 7) % 190])
        if k >= 50:
            sink.ended(ids[k - 50], "last reference", stacks[(k + 3) % 190])
    for buffer in ids[-50:]:
        sink.ended(buffer)
    sink.step()
    return 1501

events, most = 0, 0
events += turn()  # what is imported and made once is not growth
time.sleep(0.5)
base, start, first = memory(), time.monotonic(), events
while events < wanted:
    events += turn()
    if recorder.step % 20 == 0:
        most = max(most, memory())
    ahead = (events - first) / rate - (time.monotonic() - start)
    if ahead > 0.01:
        time.sleep(ahead)
recorder.stop()
size = sum(path.stat().st_size for path in folder.iterdir())
told = {"events": events, "rows": recorder.events, "grown": max(most, memory()) - base, "bytes": size}
print(json.dumps(told | {"seconds": time.monotonic() - start}))
"""


@pytest.mark.long
@pytest.mark.timeout(0)
def test_ten_million_events_are_small(tmp_path):
    words = [sys.executable, "-c", MANY, str(tmp_path / "trace"), "10000000", "100000"]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    told = json.loads(done.stdout)
    print(told, f"{told['bytes'] / told['rows']:.1f} bytes a row")
    assert told["grown"] < 64 << 20
    assert told["bytes"] <= 12 * told["rows"]
    assert sum(process.events for process in load(tmp_path / "trace").processes) == told["rows"]
