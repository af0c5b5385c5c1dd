"""Writers of a file store are killed at any moment: what `put` said is there, nothing is there by halves, nobody waits."""

import os
import random
import signal
import struct
import time

import pytest

import tenure
from tenure.sharing.store.file import backend, upkeep

NAMES = [f"layer{number}/w" for number in range(4)]


def content(np, name, seed):
    """A tensor that tells from its first element what all others must be."""
    length = 1 + (seed * 7919 + len(name)) % 120_000
    return (np.arange(length, dtype=np.int64) * 2654435761 + seed).view(np.uint8).view(np.int64)


def write(np, url, pipe, seed):
    """Put and delete for ever; every call that returned is told in the pipe."""
    random.seed(seed)
    store = tenure.Store(url)
    while True:
        seed += 1
        name = random.choice(NAMES)
        turn = random.random()
        if turn < 0.1:
            done = store.version(name)
            try:
                store.delete(name)
            except tenure.NameMissing:
                continue
            os.write(pipe, struct.pack("<4sqqq", b"del ", NAMES.index(name), done, 0))
        elif turn < 0.2 and name in store:
            try:
                with store.lease(name) as value:
                    assert value[0] < 10**9
            except tenure.NameMissing:
                continue
        else:
            version = store.put(name, content(np, name, seed))
            os.write(pipe, struct.pack("<4sqqq", b"put ", NAMES.index(name), version, seed))


def killed(np, url, seed, calls, after):
    """What a writer had told when it was killed, so many calls and seconds after its start."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            write(np, url, writer, seed)
        finally:
            os._exit(9)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read(28 * calls)
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
        told += pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == -signal.SIGKILL, f"the writer failed by itself: {status}"
    return list(struct.iter_unpack("<4sqqq", told[: len(told) // 28 * 28]))


def survive(np, folder, kills, rng, ending=""):
    """Kill that many writers in one store, and look after each; how many calls had returned."""
    url = f"file:{folder}{ending}"
    calls, known = 0, {}
    for round_ in range(kills):
        told = killed(np, url, (round_ + 1) * 1_000_000, rng.randrange(6), rng.random() * 0.02)
        calls += len(told)
        for kind, number, version, seed in told:
            assert kind == b"del " or version > known.get(number, (0, 0))[0]
            known[number] = (version, seed if kind == b"put " else None)
        start = time.monotonic()
        cut_short = 0
        with tenure.Store(url) as store:
            for number, (version, seed) in known.items():
                name = NAMES[number]
                if seed is not None and store.version(name) == version:
                    assert np.array_equal(store[name], content(np, name, seed))  # to the bit: they are integers
                elif seed is not None or store.version(name):  # by the call that was cut short: one more, or a grave
                    cut_short += 1
                    assert store.version(name) == version + 1 or store._backend.grave(name).version == version
            for number, name in enumerate(NAMES):
                if name in store:
                    found = store[name]
                    assert np.array_equal(found, content(np, name, int(found[0])))  # nothing by halves
                    assert store.leases(name) == []
                    known[number] = (store.version(name), int(found[0]))
                elif number in known:
                    known[number] = (known[number][0], None)
            assert cut_short <= 1
            assert store.put("after", np.ones(3)) == round_ + 1
        assert time.monotonic() - start < 30, "a lock was stuck"
    files = backend.FileStore(folder)
    assert list(upkeep.check(files)) == []
    upkeep.gc(files)
    assert len(list(files.tensors.iterdir())) == len(files.names())
    assert list(files.users.iterdir()) == []
    files.close()
    return calls


def test_writers_are_killed_and_nothing_is_lost(np, tmp_path):
    rng = random.Random(7)
    assert survive(np, tmp_path / "fast", 18, rng) > 20
    assert survive(np, tmp_path / "durable", 7, rng, "?durable") > 5


def test_the_making_of_a_store_is_killed(np, tmp_path):
    rng = random.Random(3)
    for turn in range(12):
        folder = tmp_path / f"new{turn}"
        killed(np, f"file:{folder}", 1, 0, rng.random() * 0.02)
        with tenure.Store(f"file:{folder}") as store:
            store["after"] = np.ones(3)
            assert np.array_equal(store["after"], np.ones(3))


@pytest.mark.long
def test_two_hundred_kills(np, tmp_path):
    calls = survive(np, tmp_path / "fast", 150, random.Random()) + survive(
        np, tmp_path / "durable", 50, random.Random(), "?durable"
    )
    print(f"200 kills, {calls} calls had returned")
    assert calls > 200
