"""Interrupts at any moment, as Ctrl-C and a timer's signal bring them: no scope, lease, name or run stays behind."""

import os
import subprocess
import sys

import pytest

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}

# `once` is interrupted at random times, `left` says what stays. A later call must do, so it is made first.
STRESS = """
import random, signal, sys, time
import numpy as np
import tenure
from tenure.lifetime import regions
from tenure.sharing import variables_book, variables_scope

armed = False
def alarm(*_):
    if armed:
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, alarm)
store = tenure.Store("memory:")
store["w"] = np.ones(4)
session = tenure.Session() if sys.argv[1] == "run" else None  # it has a region of its own

def in_scope():
    with tenure.scope("s"):
        with tenure.scope("t"):
            pass

def open_scopes():
    with tenure.scope("next"):
        return len(regions.opened()) - 1

def in_lease():
    with store.lease("w") as w:
        w.sum()

def in_name():
    with tenure.variable_scope("a"), tenure.variable_scope("b"), variables_book.alone(book, "w"):
        pass

def names_left():
    with variables_book.alone(book, "w"):  # raises if it is still busy
        return variables_scope.current().prefix

def in_run():
    session.run(int)

book = variables_book.Book()
once, left = {
    "scope": (in_scope, open_scopes),
    "lease": (in_lease, lambda: store.leases("w")),
    "names": (in_name, names_left),
    "run": (in_run, lambda: session._core._active),
}[sys.argv[1]]
rng, times = random.Random(1), []
for _ in range(50):
    begin = time.perf_counter()
    once()
    times.append(time.perf_counter() - begin)
typical, hits = sorted(times)[25], 0
for _ in range(1000):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, rng.random() * typical * 1.3))
        once()
        armed = False
    except KeyboardInterrupt:
        armed = False
        hits += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    found = left()
    assert not found, found
assert hits >= 20, hits
if sys.argv[1] == "run":
    assert session.close().ended
"""


@pytest.mark.parametrize("what", ["scope", "lease", "names", "run"])
def test_an_interrupt_leaves_nothing_open(what):
    command = [sys.executable, "-c", STRESS, what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=CLEAN, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


CLOSES = """
import concurrent.futures, random, signal, threading, tenure
armed = False
def alarm(*_):
    if armed:
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, alarm)
draws, hits = random.Random(1), 0
for _ in range(ROUNDS):
    session, gate, report = tenure.Session(workers=1), threading.Event(), []
    futures = [session.submit(gate.wait, 60), *(session.submit(pow, number, 2) for number in range(40))]
    threading.Timer(0.002, gate.set).start()
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, draws.uniform(0.00001, 0.0006))
        session.close(cancel=True)
        armed = False
    except KeyboardInterrupt:
        armed = False
        hits += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    gate.set()
    waiting = concurrent.futures.wait(futures, 60).not_done
    assert not waiting, {future.fate for future in waiting}
    again = threading.Thread(target=lambda: report.append(session.close()), daemon=True)
    again.start()
    again.join(60)
    assert report and report[0].ended, "the session has not ended"
    assert report[0].done + report[0].cancelled == len(futures), report[0]
assert hits >= ROUNDS // 10, hits
"""


def test_an_interrupted_close_cancels_every_run_and_ends_the_session():
    command = [sys.executable, "-c", CLOSES.replace("ROUNDS", "300")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=CLEAN, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
