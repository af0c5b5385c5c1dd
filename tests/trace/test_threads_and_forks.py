"""Programs with threads, forks and interrupts run as they do without tenure: nothing hangs, nothing is left behind."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import pytest

import tenure
from tenure.trace import folders
from tenure.trace.events import Dictionary
from tenure.trace.rows import Rows

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}


@pytest.fixture
def needs_torch():
    if "torch" not in os.environ.get("TENURE_TEST_FRAMEWORKS", "torch"):
        pytest.skip("torch is not among TENURE_TEST_FRAMEWORKS")


def call(folder, text, *, run=True, timeout=100, native="1", python=()):
    """The program's output; it ends by itself with 0, long before `timeout`."""
    program = folder / "program.py"
    program.write_text(f"import faulthandler; faulthandler.dump_traceback_later({timeout - 10}, exit=True)\n{text}")
    by = ("-m", "tenure", "run", "--quiet", "-o", folder / "t") if run else ()
    done = subprocess.run(
        [sys.executable, *python, *by, program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=CLEAN | {"TENURE_NATIVE": native},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return done.stdout


# ------------------------------------------------------------------------------------------------ threads

JOIN = """
import threading, torch

def work(): torch.ones(3).sum()

for _ in range(3): threading.Thread(target=work).start()
for t in threading.enumerate():
    if t is not threading.current_thread(): t.join()
print("all threads done", [t.name for t in threading.enumerate()], threading.active_count())
"""


@pytest.mark.parametrize("native", ["1", pytest.param("0", marks=pytest.mark.long)])
def test_a_program_that_joins_all_threads(tmp_path, needs_torch, native):
    assert call(tmp_path, JOIN, native=native) == "all threads done ['MainThread'] 1\n"


# A process with one thread: no thread of torch's could take the signal either.
WAITS = """
import os, signal, time
import torch

torch.ones(3)
time.sleep(0.5)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.5)
print(signal.sigwait({signal.SIGTERM}).name, sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
"""


@pytest.mark.parametrize("run", [False, True])
def test_signals_that_the_program_waits_for_reach_it(tmp_path, needs_torch, run, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setitem(CLEAN, name, "1")
    assert call(tmp_path, WAITS, run=run) == "SIGTERM [<Signals.SIGTERM: 15>]\n"


def test_no_thread_of_ours_is_seen_and_none_is_left(tmp_path):
    text = f"""
import os, threading, time, tenure
from tenure.trace import progress

with tenure.trace({str(tmp_path / "first")!r}):
    tenure.mark("pyarrow may start threads of its own")
before = len(os.listdir("/proc/self/task"))
with tenure.trace({str(tmp_path / "a")!r}) as trace:
    progress.Background(lambda: None).join()
    tenure.mark("one")
    time.sleep(0.5)  # the writer has written
    assert [t.name for t in threading.enumerate()] == ["MainThread"], threading.enumerate()
    assert len(os.listdir("/proc/self/task")) <= before + 1
until = time.monotonic() + 20
while len(os.listdir("/proc/self/task")) > before and time.monotonic() < until:
    time.sleep(0.01)
assert len(os.listdir("/proc/self/task")) <= before
print(len(tenure.load(trace.path).sql("select * from events")))
"""
    assert call(tmp_path, text, run=False) == "1\n"


# ------------------------------------------------------------------------------------------------ forks

# Threads make their first torch operation, which takes torch's lock, while another forks.
FORKS = """
import os, signal, sys, threading, time, torch, torch.multiprocessing as mp

def child():
    if len(sys.argv) > 1: torch.ones(2)

def busy():
    while not over:
        threads = [threading.Thread(target=torch.ones, args=(1,)) for _ in range(8)]
        for x in threads: x.start()
        for x in threads: x.join()

over = False
threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
for x in threads: x.start()
context = mp.get_context("fork")
hung = 0
for _ in range(CHILDREN):
    p = context.Process(target=child); p.start(); p.join(30)
    if p.is_alive():
        hung += 1
        p.kill()
over = True
for x in threads: x.join()
print("hung", hung)
"""


def test_children_of_a_program_whose_threads_use_torch(tmp_path, needs_torch, children=25):
    assert call(tmp_path, FORKS.replace("CHILDREN", str(children)), timeout=200) == "hung 0\n"


@pytest.mark.long
def test_many_children_of_a_program_whose_threads_use_torch(tmp_path, needs_torch):
    assert call(tmp_path, FORKS.replace("CHILDREN", "300"), timeout=500) == "hung 0\n"


FORKS_ALL_THE_TIME = """
import os, signal, time, tenure

with tenure.trace("trace"):
    tenure.mark("before the forks")
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_forks_all_the_time_is_written_as_it_goes(tmp_path):
    done = subprocess.run([sys.executable, "-c", FORKS_ALL_THE_TIME], cwd=tmp_path, timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL
    names = tenure.load(tmp_path / "trace").sql("select name from events").column("name").to_pylist()
    assert "before the forks" in names


TRACE_ENDS = """
import os, threading, time, torch, tenure

inside, go_on = threading.Event(), threading.Event()
os.register_at_fork(before=lambda: (inside.set(), go_on.wait(0.3)))  # such as a lock of the program's
for at in range(3):
    trace = tenure.trace(f"trace-{at}")
    trace.__enter__()
    torch.ones(10)
    inside.clear(), go_on.clear()
    statuses = []

    def forker():
        pid = os.fork()
        if pid == 0:
            torch.ones(10)
            os._exit(7)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    thread = threading.Thread(target=forker)
    thread.start()
    inside.wait()
    trace.__exit__(None, None, None)  # another thread forks meanwhile
    thread.join()
    print(statuses, tenure.load(trace.path).processes[0].complete)
"""


def test_a_trace_ends_while_another_thread_forks(tmp_path, needs_torch):
    assert call(tmp_path, TRACE_ENDS, run=False) == "[7] True\n" * 3


def test_forks_one_after_the_other_lose_nothing(tmp_path):
    text = """
import os, tenure
with tenure.trace("t") as trace:
    for n in range(50):
        tenure.mark(f"parent {n}")
        if os.fork() == 0:
            tenure.mark(f"child {n}")
            trace.__exit__(None, None, None)
            os._exit(0)
        os.wait()
names = tenure.load(trace.path).sql("select name from events where event = 'mark'").to_pylist()
print(sorted(row["name"] for row in names) == sorted(f"{who} {n}" for who in ("parent", "child") for n in range(50)))
"""
    assert call(tmp_path, text, run=False) == "True\n"


# ------------------------------------------------------------------------------------------------ processes that wrote nothing

IDLE = """
import torch
from torch.utils.data import DataLoader, TensorDataset

val = DataLoader(TensorDataset(torch.ones(1, 2)), batch_size=2, num_workers=2, drop_last=True)
for (x,) in val: pass
for i in range(3):
    next(iter(DataLoader(TensorDataset(torch.arange(8.)), num_workers=2)))  # whose workers are ended at once
print("done")
"""


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("idle")
    assert call(folder, IDLE) == "done\n"
    return folder / "t"


def tenure_says(*words):
    done = subprocess.run(
        [sys.executable, "-m", "tenure", *map(str, words)], capture_output=True, text=True, check=False, env=CLEAN
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def cut(path, size):
    """A stream as a process leaves it that is killed when so much of it was written."""
    path.write_bytes(b"\xff\xff\xff\xff\xf0\x0a\x00\x00\x10\x00"[:size])
    path.with_suffix(".sums").write_bytes(b"")


@pytest.mark.parametrize("size", [None, 0, 10])
def test_a_process_that_wrote_nothing_is_passed_over(needs_torch, idle, size, tmp_path):
    for path in idle.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    if size is not None:
        cut(tmp_path / "events-999999.arrows", size)
    trace = tenure.load(tmp_path)
    assert trace.sql("select count(*) n from events").to_pylist()[0]["n"] > 0
    assert trace.processes[0].complete
    assert "aten::" in tenure_says("report", tmp_path)
    assert tenure_says("sql", tmp_path, "select count(*) from buffers")
    assert "processes together" in tenure_says("top", "--once", tmp_path)
    tenure_says("export", "--to", "csv", "-o", tmp_path.parent / f"{tmp_path.name}.csv", tmp_path)
    assert folders._files_of_trace(tmp_path, [path.name for path in tmp_path.iterdir()])


TWO_FRAMEWORKS = """
import threading
before = threading.Thread._bootstrap_inner
import tensorflow, torch, tenure
with tenure.trace("both"):
    torch.ones(2), tensorflow.ones(2)
print(threading.Thread._bootstrap_inner is before)
"""


def test_what_two_recorders_wrapped_is_as_it_was(tmp_path, needs_torch):
    pytest.importorskip("tensorflow")
    assert call(tmp_path, TWO_FRAMEWORKS, run=False, native="0") == "True\n"


# ------------------------------------------------------------------------------------------------ no room

FULL = """
import resource, signal, sys, time, torch
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))  # larger files cannot be written
kept = []
for n in range(40_000): kept.append(torch.ones(n % 50 + 1))
time.sleep(1)
print("done", len(kept))
"""


def test_a_trace_that_could_not_be_written_to_the_end_says_why(tmp_path, needs_torch):
    assert call(tmp_path, FULL) == "done 40000\n"
    trace = tenure.load(tmp_path / "t")
    (process,) = trace.processes
    assert not process.complete
    assert process.failure == "File too large"
    assert any("its trace could not be written any further: File too large" in note for note in trace.notes)
    assert not any("killed" in note for note in trace.notes)
    report = tenure_says("report", tmp_path / "t")
    assert "File too large" in report
    assert "killed" not in report


@pytest.mark.skipif(not os.access("/sbin/mkfs.ext4", os.X_OK) or os.geteuid() != 0, reason="needs root and mount")
@pytest.mark.long
def test_a_full_disk(tmp_path, needs_torch):
    image, place = tmp_path / "image", tmp_path / "disk"
    image.write_bytes(bytes(1 << 20))
    place.mkdir()
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, place], check=False, capture_output=True).returncode:
        pytest.skip("mount is not allowed here")
    try:
        text = FULL.replace("resource.setrlimit", "(lambda *_: None)").replace("40_000): kept", "400_000): kept")
        text = text.replace("import resource", "import tenure, resource")
        (tmp_path / "t").symlink_to(place / "t")
        (place / "t").mkdir()
        call(tmp_path, text, timeout=200)
        (process,) = tenure.load(place / "t").processes
        assert process.failure == "No space left on device"
    finally:
        subprocess.run(["umount", place], check=False)


# ------------------------------------------------------------------------------------------------ interrupts

# A timer interrupts the main thread wherever it is: in the beginning of a trace, in its end, between.
INTERRUPTS = """
import os, random, shutil, signal, sys, time, torch, tenure
from tenure.lifetime import regions
from tenure.trace import recorder

random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
before = dict(os.environ)
interrupts = broken = 0
with tenure.trace("first"):
    torch.ones(3)  # what is imported and built once, is
for n in range(ROUNDS):
    shutil.rmtree("again", ignore_errors=True)
    trace = tenure.trace("again")
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.1))
        with trace:
            torch.ones(3) + 1
        time.sleep(0.2)
    except KeyboardInterrupt:
        interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert recorder.active() is None
    assert dict(os.environ) == before
    assert not regions.on_scope and not regions.on_end and not regions.on_excess
    if trace._recorder is not None:
        (process,) = tenure.load(trace.path).processes
        broken += not process.complete
with tenure.trace("last") as last:
    torch.ones(3)
assert tenure.load(last.path).processes[0].complete
print(interrupts, broken)
"""


def test_interrupts_leave_nothing_behind(tmp_path, needs_torch, rounds=12):
    text = INTERRUPTS.replace("ROUNDS", str(rounds))
    interrupts, broken = call(tmp_path, text, run=False, timeout=280).split()
    assert int(interrupts) == rounds
    assert broken == "0"


@pytest.mark.long
def test_many_interrupts_leave_nothing_behind(tmp_path, needs_torch):
    test_interrupts_leave_nothing_behind(tmp_path, needs_torch, rounds=200)


# The first tasks of a session start its threads.
SUBMITS = """
import random, signal, time, tenure
random.seed(3)
hits = 0

def handler(*_):
    if armed: raise KeyboardInterrupt

signal.signal(signal.SIGALRM, handler)
for n in range(ROUNDS):
    with tenure.Session(workers=3) as session:
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00002, 0.0006))
            for k in range(3): session.submit(pow, k, 2)
            time.sleep(1)
        except KeyboardInterrupt:
            hits += 1
        armed = False
        assert session.submit(pow, 6, 2).result(timeout=60) == 36
print(hits > ROUNDS / 2)
"""


def test_an_interrupt_in_submit_leaves_the_session_whole(tmp_path):
    assert call(tmp_path, SUBMITS.replace("ROUNDS", "300"), run=False) == "True\n"


def test_rows_are_taken_while_threads_add_and_collections_run():
    """A collection can start wherever a tuple is made, and another thread can run during it."""
    rows, over, wrong = Rows(lambda: (0, None), lambda number: None), threading.Event(), []

    class Cyclic:
        def __init__(self):
            self.itself = self
            weakref.finalize(self, sum, range(200))

    def add():
        for number in range(40_000):
            rows.used(rows.born("torch", 4, "cpu", f"op {number}", (number,), stack=f"at {number}"), f"by {number}")
            Cyclic()
        over.set()

    def take():
        words = Dictionary()
        while not over.is_set():
            try:
                rows.take(words, lambda time: time)
            except RuntimeError as error:
                wrong.append(error)

    before = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(20)
    sys.setswitchinterval(1e-6)
    try:
        adding, taking = threading.Thread(target=add), threading.Thread(target=take)
        adding.start()
        taking.start()
        adding.join()
        taking.join()
    finally:
        gc.set_threshold(*before[0])
        sys.setswitchinterval(before[1])
    assert not wrong
