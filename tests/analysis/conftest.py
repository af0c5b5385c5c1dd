"""What the scan and the timeline are tried on, and both ways to do it."""

import sys
from pathlib import Path

import pytest

from tenure.analysis import scan as scanning
from tenure.analysis import scan_twin

sys.path.insert(0, str(Path(__file__).parents[1] / "trace"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from made_traces import make, make_two
from replicate import replicate, split


@pytest.fixture(scope="module")
def make_traces(tmp_path_factory):
    """Makes a folder of traces: of one process, of two, a long one, and one of many ranks."""

    def made(count, long, ranks):
        place = tmp_path_factory.mktemp("traces")
        make(place / "one", count=count)
        make_two(place / "two")
        replicate(place / "one", place / "long", long)
        split(place / "one", place / "split", ranks)
        return place

    return made


@pytest.fixture(params=["native", "twin"])
def scan(request, monkeypatch):
    if request.param == "twin":
        monkeypatch.setattr(scanning, "engine", lambda: scan_twin)
    else:
        assert scanning.engine() is not scan_twin, "the native scan could not be built"
    return scanning.scan
