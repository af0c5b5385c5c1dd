"""Thousands of damaged traces: each opens, or raises TraceError; none crashes, hangs, or takes the memory."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import zlib
from pathlib import Path

import pytest
from made_traces import ENVIRONMENT, make

_WORKERS = 2
_SECONDS = 30  # for one trace; they take milliseconds
_MEMORY = 512 << 20  # that all traces of a worker together may add


# ------------------------------------------------------------------------------------------ damage


def flip(rng, data):
    for _ in range(rng.choice([1, 1, 1, 2, 8, 64])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def cut(rng, data):
    del data[rng.randrange(len(data)) :]


def drop(rng, data):
    start = rng.randrange(len(data))
    del data[start : start + rng.choice([1, 4, 8, 64, 1000])]


def insert(rng, data):
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice([1, 4, 8, 64, 1000]))


def swap(rng, data):
    size = rng.choice([1, 8, 64, 512])
    one, other = (rng.randrange(len(data)) for _ in range(2))
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]


def overwrite(rng, data):
    """With numbers that lengths and offsets go wrong by."""
    number = rng.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 33, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
    size = rng.choice([4, 8])
    at = rng.randrange(len(data)) // 4 * 4
    data[at : at + size] = (number % (1 << (8 * size))).to_bytes(size, "little")


def repeat(rng, data):
    start = rng.randrange(len(data))
    piece = data[start : start + rng.randrange(1, 2000)]
    at = rng.randrange(len(data) + 1)
    data[at:at] = piece


def blank(rng, data):
    start, size = rng.randrange(len(data)), rng.choice([8, 64, 512])
    data[start : start + size] = bytes(len(data[start : start + size]))


def empty(rng, data):
    data.clear()


def append(rng, data):
    data += rng.randbytes(rng.choice([1, 8, 100]))


KINDS = (flip, flip, cut, drop, insert, swap, overwrite, overwrite, repeat, blank, empty, append)


def damage(rng, folder):
    """Change one to three things in a trace; says what, and whether its sums still prove the streams."""
    streams = sorted(folder.glob("*.arrows"))
    mode = rng.choice(["proven", "proven", "unproven", "unproven", "proven anew"])
    files = streams if mode != "proven" else sorted(folder.iterdir())
    told = [mode]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        file = rng.choice(files)
        data = bytearray(file.read_bytes())
        kind = rng.choice(KINDS)
        if data:
            kind(rng, data)
            file.write_bytes(data)
        told.append(f"{kind.__name__} {file.name}")
    if mode == "unproven":
        for file in folder.glob("*.sums"):
            file.unlink()
    elif mode == "proven anew":  # as if somebody else had written it so
        for file in streams:
            data = file.read_bytes()
            file.with_suffix(".sums").write_text(f"{len(data)} {zlib.crc32(data):08x}\n" if data else "")
    elif rng.random() < 0.05:
        one, other = rng.sample(sorted(folder.iterdir()), 2)
        (mine, theirs) = one.read_bytes(), other.read_bytes()
        one.write_bytes(theirs)
        other.write_bytes(mine)
        told.append(f"{one.name} for {other.name}")
    return told


# ------------------------------------------------------------------------------------------ the worker


def look(folder, whole, *, thorough):
    """What becomes of a damaged trace: all of it is read if it opens, and if `thorough`, by all that reads."""
    from tenure.analysis.summary import summary
    from tenure.errors import TraceError
    from tenure.trace.reader import load
    from tenure.views.console import report

    try:
        trace = load(folder)
        rows = {str(row) for row in trace.events().read_all().to_pylist()}
        if thorough:
            found = summary(trace)
            report.render(found)
            report.as_json(found)
            trace.buffers()
    except TraceError as error:
        assert str(folder) in str(error), f"names no file: {error}"
        return "refused"
    return "read" if rows == whole else "read in part" if rows < whole else "read otherwise"


def work(original, first, count):
    """Damage and read; a line for each, and before it its number, so that a crash has a name."""
    from tenure.trace.reader import load

    whole = {str(row) for row in load(original).events().read_all().to_pylist()}
    with tempfile.TemporaryDirectory() as place:
        base = 0
        for seed in range(first, first + count):
            print(f"seed {seed}", flush=True)
            rng = random.Random(seed)
            folder = Path(place, str(seed))
            shutil.copytree(original, folder)
            told = damage(rng, folder)
            signal.alarm(_SECONDS)
            try:
                outcome = look(folder, whole, thorough=seed % 5 == 0)
            except BaseException:
                outcome = "raised " + traceback.format_exc()
            signal.alarm(0)
            shutil.rmtree(folder)
            print(json.dumps({"seed": seed, "outcome": outcome, "damage": told}), flush=True)
            if seed == first + 20:
                base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"memory": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) * 1024}), flush=True)


def outcomes(original, first, count):
    """Run the seeds in worker processes."""
    share = count // _WORKERS
    words = [sys.executable, __file__, "work", str(original)]
    workers = [
        subprocess.Popen(
            [*words, str(first + number * share), str(share)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        )
        for number in range(_WORKERS)
    ]  # fmt: skip
    found = []
    for worker in workers:
        out, error = worker.communicate()
        lines = out.splitlines()
        assert worker.returncode == 0, f"{lines[-1]}: exit status {worker.returncode}: {error[-2000:]}"
        told = [json.loads(line) for line in lines if line.startswith("{")]
        assert told[-1]["memory"] < _MEMORY
        found += told[:-1]
    return found


def check(original, first, count):
    found = outcomes(original, first, count)
    raised = [one for one in found if one["outcome"].startswith("raised")]
    assert not raised, (
        f"{len(raised)} of {len(found)}, such as {raised[0]['seed']} {raised[0]['damage']}:\n{raised[0]['outcome']}"
    )
    # While the sums are there nothing but what was written is ever read.
    proven = [one for one in found if one["damage"][0] == "proven" and ".sums" not in str(one["damage"])]
    false = [one for one in proven if one["outcome"] == "read otherwise"]
    assert not false, false[0]
    kinds = {one["outcome"] for one in found}
    assert {"read", "refused", "read in part"} <= kinds  # or the damage is not what it should be
    return found


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace") / "run"
    make(folder, count=350)
    make(folder, seed=2, count=150, fresh=False)
    return folder


def test_damaged_traces_are_read_or_refused(original):
    check(original, 0, 600)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_ten_thousand_damaged_traces_are_read_or_refused(original):
    check(original, 10_000, 10_000)


if __name__ == "__main__":
    os.environ["MALLOC_ARENA_MAX"] = "2"
    work(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
