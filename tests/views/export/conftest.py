"""Traces to export: one of two processes with two devices, and one whose words are hostile."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[2] / "trace"), str(Path(__file__).parent)]

from export_words import HOSTILE
from made_traces import make_two
from perfetto_shell import TraceProcessor

from tenure.trace.foreign.making import Making
from tenure.traces import load


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TENURE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("exports") / "run"
    make_two(place)
    return place


@pytest.fixture
def trace(folder):
    return load(folder)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """Every word of it is hostile: devices, operations, files, functions, kinds, marks."""
    place = tmp_path_factory.mktemp("hostile")
    with Making(place, "torch", {}) as made:
        for at, word in enumerate(HOSTILE):
            stack = f"/home/{word}.py:{at + 1} in {word}\n/home/me/main.py:7 in <module>\n{word}"
            buffer = made.birth(1000 + at, word, 4096 + at, stack=stack, op=word, kind=word)
            made.end(5000 + at, buffer, stack=stack)
            made.mark(6000 + at, word)
    return load(place)


@pytest.fixture(scope="session")
def shell():
    """Perfetto's trace processor."""
    found = TraceProcessor()
    yield found
    found.close()
