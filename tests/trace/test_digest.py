"""What the analyses begin with, made while the trace is written: the same as the events say, or not believed."""

import json
import random
import shutil
import sys
import zlib
from pathlib import Path

import pytest

from tenure.analysis import scan as scanning
from tenure.trace import digest
from tenure.traces import load

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from made_traces import make
from replicate import replicate


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    place = tmp_path_factory.mktemp("digest")
    assert digest.engine() is not None, "the native scan could not be built"
    make(place / "one", count=1500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "_FEW", 1)
        replicate(place / "one", place / "long", 40_000)
    return place / "long"


def told(found):
    """All that a scan says, in an order that does not depend on tables."""
    first, last, *_ = found.facts
    moments = [None, *(first + (last - first) * part // 7 for part in range(1, 7))]
    devices = range(len(found.words("device")))
    return {
        "facts": found.facts,
        "peaks": found.peaks(),
        "steps": found.steps,
        "curves": [found.curve(device) for device in devices],
        "sites": found.sites().to_pydict(),
        "growth": found.growth(),
        "alive": [sorted(map(str, found.alive(moment).to_pylist())) for moment in moments],
        "latest": found.sources[0].latest,
    }


def test_it_says_what_the_events_say(trace, monkeypatch):
    streams = load(trace).streams
    saved = digest.read(streams[0])
    assert saved is not None
    assert len(saved.kept) > 1
    quick = told(scanning.scan(streams))
    monkeypatch.setattr(digest, "read", lambda _: None)
    assert quick == told(scanning.scan(streams))


def test_a_short_trace_has_none(tmp_path):
    make(tmp_path / "one", count=50)
    assert not list((tmp_path / "one").glob("*.digest"))


def test_it_counts_only_for_its_own_stream(trace, tmp_path):
    make(tmp_path / "other", count=300)
    stream = load(tmp_path / "other").streams[0]
    stream.process.path.with_suffix(".digest").write_bytes(next(trace.glob("*.digest")).read_bytes())
    assert digest.read(stream) is None


def test_a_stream_that_was_not_ended_has_none(trace, tmp_path):
    stream = load(trace).streams[0]
    for suffix in (".arrows", ".sums", ".digest"):
        (tmp_path / f"events-1{suffix}").write_bytes(stream.process.path.with_suffix(suffix).read_bytes())
    sums = tmp_path / "events-1.sums"
    sums.write_bytes(b"".join(sums.read_bytes().splitlines(keepends=True)[:-1]))
    cut = load(tmp_path).streams[0]
    assert not cut.process.complete
    assert digest.read(cut) is None


def test_damage_is_not_believed_and_never_fails(trace, monkeypatch):
    """Bytes changed with and without a sum that fits, cut, and made longer."""
    stream = load(trace).streams[0]
    path = stream.process.path.with_suffix(".digest")
    whole = path.read_bytes()
    chance = random.Random(7)
    unpacked = []
    engine = digest.engine()

    class Core:
        """The engine, with changed bytes behind the sum."""

        def unpack(self, data):
            changed = bytearray(data)
            for _ in range(chance.choice((1, 1, 8, 64))):
                # Where the counts are, more often than chance would have it.
                at = chance.randrange(min(len(changed), chance.choice((64, 4096, len(changed)))))
                changed[at] = chance.randrange(256)
            state = engine.unpack(bytes(changed[: chance.choice((len(changed), chance.randrange(len(changed))))]))
            unpacked.append(state)
            return state

    try:
        for _ in range(150):
            at = chance.randrange(len(whole))
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :])
            found = digest.read(stream)
            # Only what no answer depends on may still be read: the order or the spaces of the first line.
            assert found is None or whole[:at].count(b"\n") == 0
            path.write_bytes(whole[:at])
            assert digest.read(stream) is None
        path.write_bytes(whole)
        monkeypatch.setattr(digest, "engine", Core)
        for _ in range(600):
            digest.read(stream)
    finally:
        path.write_bytes(whole)
    # Some changed numbers are still numbers: to look at them must not fail either.
    for state in unpacked[:200]:
        engine.sites(state), engine.growth(state), engine.alive(state, 0), engine.longs(state), engine.peaks(state, -1)
    assert zlib.crc32(path.read_bytes()) == zlib.crc32(whole)


@pytest.mark.parametrize("batch", [-1, -(1 << 40), 1 << 40])
def test_one_that_begins_at_a_batch_that_is_not_there_is_not_believed(trace, tmp_path, batch):
    shutil.copytree(trace, tmp_path / "run")
    (path,) = (tmp_path / "run").glob("*.digest")
    head, _, rest = path.read_bytes().partition(b"\n")
    about = json.loads(head)
    about["kept"][0][0] = batch
    path.write_bytes(json.dumps(about).encode() + b"\n" + rest)
    found = load(tmp_path / "run")
    assert digest.read(found.streams[0]) is None
    first, last, *_ = found.scanned.facts
    assert len(found.scanned.alive((first + last) // 2)) == len(load(trace).scanned.alive((first + last) // 2))
