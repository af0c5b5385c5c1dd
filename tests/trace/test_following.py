"""A trace while it is made: streams that grow, join, end, are killed, damaged or made anew."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.errors import TraceError
from tenure.trace import running
from tenure.trace.following import Following, Lines
from tenure.trace.tail import Tail

sys.path.insert(0, str(Path(__file__).parents[1] / "views" / "live"))
from made import Made, birth

COLUMNS = ("time", "event", "buffer", "bytes", "site")


def rows(batches):
    return [(row["buffer"], row["site"]) for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def made(tmp_path):
    one = Made(tmp_path, os.getpid(), RANK="0")
    yield one
    one.abandon()


@pytest.fixture
def tail(made):
    one = Tail(made.path, COLUMNS)
    yield one
    one.close()


def test_each_batch_is_read_once_with_words_that_come_later(made, tail):
    assert tail.read() == []
    assert tail.process is None
    for number in range(5):
        made.write(birth(number, number, 8, f"a.py:{number} in f"), birth(number, 100 + number, 8, None))
        assert rows(tail.read()) == [(number, f"a.py:{number} in f"), (100 + number, None)]
        assert tail.read() == []
    assert (tail.process.pid, tail.process.events, tail.complete) == (os.getpid(), 10, False)
    made.close()
    assert tail.read() == []
    assert tail.complete


def test_who_comes_late_reads_all_at_once(made):
    for number in range(5):
        made.write(birth(number, number, 8, f"a.py:{number} in f"))
    tail = Tail(made.path, COLUMNS)
    assert len(rows(tail.read())) == 5
    tail.close()


def test_a_batch_counts_when_its_sum_is_there(made, tail):
    made.write(birth(0, 1, 8, "a.py:1 in f"))
    sums = made.path.with_suffix(".sums")
    whole = sums.read_bytes()
    for cut in range(len(whole) - 2, len(whole)):  # a line without its end
        sums.write_bytes(whole[:cut])
        assert tail.read() == []
    sums.write_bytes(whole)
    assert rows(tail.read()) == [(1, "a.py:1 in f")]


@pytest.mark.parametrize("harm", ["bytes", "sums", "short", "none"])
def test_damage_is_said(made, harm):
    made.write(birth(0, 1, 8, "a.py:1 in f"))
    sums = made.path.with_suffix(".sums")
    if harm == "bytes":
        data = bytearray(made.path.read_bytes())
        data[len(data) // 2] ^= 1
        made.path.write_bytes(data)
    elif harm == "sums":
        sums.write_bytes(b"12 nonsense\n")
    elif harm == "short":
        made.path.write_bytes(made.path.read_bytes()[:-1])
    else:
        sums.unlink()
    tail = Tail(made.path, COLUMNS)
    with pytest.raises(TraceError, match=r"damaged|no file of checksums"):
        tail.read()
    tail.close()


def follow(following):
    return {one.number: rows(batches) for one, batches in following.read()}


def states(following):
    return [one.state for one in following.followed]


def test_processes_join_and_end(made, tmp_path):
    following = Following(tmp_path, COLUMNS)
    assert follow(following) == {0: []}
    assert states(following) == ["waiting"]
    made.write(birth(0, 1, 8, "a.py:1 in f"))
    assert follow(following) == {0: [(1, "a.py:1 in f")]}
    assert states(following) == ["running"]  # for this very process has it open
    other = Made(tmp_path, 999_999_999)  # a number that no process has
    other.write(birth(0, 7, 8, "a.py:1 in f"))
    assert follow(following) == {0: [], 1: [(7, "a.py:1 in f")]}
    other.abandon()
    assert states(following) == ["running", "gone"]
    assert not following.over
    made.close()
    follow(following)
    assert states(following) == ["ended", "gone"]
    assert following.over
    following.close()


def test_a_stream_of_another_machine_runs_while_it_grows(tmp_path):
    far = Made(tmp_path, 999_999_999)
    far.write(birth(0, 1, 8, "a.py:1 in f"))
    following = Following(tmp_path, COLUMNS)
    follow(following)
    assert states(following) == ["gone"]
    far.write(birth(1, 2, 8, "a.py:1 in f"))
    follow(following)
    assert states(following) == ["running"]
    far.abandon()
    following.close()


def test_another_run_in_the_same_folder_is_followed_from_its_beginning(tmp_path):
    old = Made(tmp_path, 5)
    old.write(birth(0, 1, 8, "a.py:1 in f"))
    following = Following(tmp_path, COLUMNS)
    follow(following)
    old.abandon()
    for path in tmp_path.iterdir():
        path.unlink()
    new = Made(tmp_path, 5)
    new.write(birth(0, 2, 8, "a.py:2 in f"))
    assert follow(following) == {0: [(2, "a.py:2 in f")]}
    assert following.restarted == 1
    new.abandon()
    following.close()


def test_what_is_no_trace_is_said(tmp_path):
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(TraceError, match=r"does not exist|no trace"):
            Following(place, COLUMNS)


def test_a_folder_without_streams_waits_for_the_process_that_made_it(tmp_path):
    (tmp_path / "meta.json").write_text(json.dumps({"pid": os.getpid()}))
    following = Following(tmp_path, COLUMNS)
    assert follow(following) == {}
    assert not following.over
    (tmp_path / "meta.json").write_text(json.dumps({"pid": 999_999_999}))
    assert following.over


def test_lines_are_told_when_they_are_whole(tmp_path):
    lines = Lines(tmp_path, "growing")
    path = tmp_path / "growing-7.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2')
    assert lines.read() == [(7, {"a": 1})]
    with path.open("ab") as file:
        file.write(b'}\n[1]\nnonsense\n\xff\xfe\n{"a": 3}\n')
    assert lines.read() == [(7, {"a": 2}), (7, {"a": 3})]
    assert lines.read() == []
    path.write_bytes(b'{"b": 1}\n')  # of another run
    assert lines.read() == [(7, {"b": 1})]


def test_who_writes_is_found_and_who_reads_is_not(made, tmp_path):
    assert running.is_writing(os.getpid(), made.path)
    with made.path.open("rb"):
        made.stream.abandon()
        assert not running.is_writing(os.getpid(), made.path)
    code = "import sys, os; os.open(sys.argv[1], os.O_WRONLY); print('ready', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", code, str(made.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        found = [one for one in running.find() if one.folder == tmp_path]
        assert [(one.pid, one.recording) for one in found] == [(other.pid, True)]
        assert found[0].command[-1] == str(made.path)
        other.stdin.close()
