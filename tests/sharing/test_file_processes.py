"""Many processes at work in one file store: every name's history is one that a single process could have seen."""

import os
import pickle
import random
import signal
import time

import linear
import pytest

import tenure
from tenure.sharing.store.file import upkeep


def whole(found):
    assert (found == found[0]).all()
    return int(found[0])


def work(np, url, number, calls, names):
    """One process's share: its history."""
    with tenure.Store(url) as store:
        recorder = linear.Recorder(store, lambda value: np.full(20, value), whole, time.monotonic, f"p{number}")
        rng = random.Random(number)
        for turn in range(calls // 100):
            recorder.mixed(rng, names, 90, number * 10**6 + turn * 100)
            for _ in range(10):  # leases do not show in the history; whoever holds one keeps the name
                name = rng.choice(names)
                try:
                    with store.lease(name) as value:
                        assert name in store
                        assert (value == value[0]).all()
                except tenure.NameMissing:
                    pass
        return recorder.history


def at_work(np, url, processes, calls, names, seconds):
    """What all processes noted; a watchdog ends those that hang, and the test with them."""
    pipes = {}
    for number in range(processes):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(seconds)
                os.close(reader)
                history = work(np, url, number, calls, names)
                with os.fdopen(writer, "wb") as pipe:
                    pickle.dump(history, pipe)
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        pipes[child] = reader
    history, ends = [], []
    for child, reader in pipes.items():
        with os.fdopen(reader, "rb") as pipe:
            told = pipe.read()
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        history += pickle.loads(told) if told else []
    assert ends == [0] * processes, "some failed, or were ended by the watchdog"
    return history


def judged(np, url, processes, calls, names, seconds):
    start = time.monotonic()
    history = at_work(np, url, processes, calls, names, seconds)
    took = time.monotonic() - start
    assert len(history) == processes * calls * 9 // 10
    with tenure.Store(url) as store:
        # The last word: what is there after all have gone.
        last = linear.Recorder(store, None, whole, time.monotonic, "last")
        for name in names:
            last.do("get", name)
            assert store.leases(name) == []
        assert linear.check(history + last.history) == []
        assert list(upkeep.check(store._backend)) == []
        assert len(os.listdir(store._backend.tensors)) == len(store)  # no file too many: nobody was killed
    return took, time.monotonic() - start - took


def test_processes_see_one_history(np, tmp_path):
    judged(np, f"file:{tmp_path}/s", 4, 200, [f"n{number}" for number in range(5)], 120)


@pytest.mark.long
def test_eight_processes_two_thousand_calls(np, tmp_path):
    took, checked = judged(np, f"file:{tmp_path}/s", 8, 2000, [f"n{number}" for number in range(12)], 280)
    print(f"8 processes x 2000 calls in {took:.1f} s, judged in {checked:.1f} s")
