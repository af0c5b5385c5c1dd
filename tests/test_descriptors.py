"""Nothing of ours is written to a descriptor that the program has closed, or put something else in the place of."""

import os
import subprocess
import sys
import time

import pytest

from tenure.descriptors import OwnFile, ReadFile, append
from tenure.sharing.store.file.presence import Presence
from tenure.trace import streams

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
RUN = ["-m", "tenure", "run", "--quiet", "-o", "t"]


@pytest.fixture
def ours(tmp_path):
    made = OwnFile(tmp_path / "ours")
    made.write(b"one ")
    yield made
    made.close()


@pytest.fixture
def theirs(tmp_path):
    """A file of the program's own."""
    handle = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT)
    os.write(handle, b"mine")
    yield handle
    os.close(handle)


def test_a_lost_descriptor_is_opened_again(ours):
    os.close(ours._handle)
    ours.write(b"two")
    assert ours.path.read_bytes() == b"one two"


def test_a_descriptor_that_became_the_programs_is_left_to_it(ours, theirs, tmp_path):
    number = ours._handle
    os.dup2(theirs, number)
    ours.write(b"two")
    ours.close()
    assert ours.path.read_bytes() == b"one two"
    assert (tmp_path / "theirs").read_bytes() == b"mine"
    os.close(number)  # it is open still


@pytest.mark.parametrize("by", ["nothing", "another", "a copy", "a pipe", "a link"])
def test_a_file_that_was_replaced_is_not_written(ours, theirs, tmp_path, by):
    os.dup2(theirs, ours._handle)
    os.close(ours._handle)
    held = os.open(ours.path, os.O_RDONLY)  # so that no other file gets its number on the disk
    ours.path.unlink()
    if by in ("another", "a copy"):
        ours.path.write_bytes(b"mine" if by == "another" else b"one ")
    elif by == "a pipe":
        os.mkfifo(ours.path)
    elif by == "a link":
        ours.path.symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError):
        ours.write(b"two")
    ours.close()
    os.close(held)
    assert (tmp_path / "theirs").read_bytes() == b"mine"
    if by in ("another", "a copy"):
        assert ours.path.read_bytes() in (b"mine", b"one ")


def test_a_file_that_another_wrote_to_is_not_written(ours):
    with ours.path.open("ab") as file:
        file.write(b"mine")
    with pytest.raises(OSError, match="was changed by another program"):
        ours.write(b"two")
    assert ours.path.read_bytes() == b"one mine"


def test_a_file_that_is_read_is_found_again(ours, theirs, tmp_path):
    reading = ReadFile(ours.path)
    assert reading.read(9, 0) == b"one "
    number = reading._handle
    os.dup2(theirs, number)
    ours.write(b"two")
    assert reading.read(9, 4) == b"two"
    os.close(reading._handle)
    os.dup2(theirs, reading._handle)
    ours.path.unlink()
    ours.path.write_bytes(b"another")
    with pytest.raises(OSError, match="was replaced by another file"):
        reading.read(9, 0)
    reading.close()
    os.close(number)
    assert (tmp_path / "theirs").read_bytes() == b"mine"


def test_a_user_of_a_store_closes_no_descriptor_of_the_programs(theirs, tmp_path):
    presence = Presence(tmp_path)
    number = presence._fd
    os.dup2(theirs, number)
    presence.end()
    assert os.pread(number, 9, 0) == b"mine"
    os.close(number)


def test_lines_are_added_to_a_file_and_to_nothing_else(tmp_path):
    for line in (b"one\n", b"two\n"):
        append(tmp_path / "lines", line)
    assert (tmp_path / "lines").read_bytes() == b"one\ntwo\n"
    (tmp_path / "link").symlink_to("lines")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError):
            append(tmp_path / name, b"three\n")
    assert (tmp_path / "lines").read_bytes() == b"one\ntwo\n"


def test_the_programs_numbers_stay_what_they_are(tmp_path):
    text = "import tenure\ntenure.mark('on')\nprint([open('s.py').fileno() for _ in range(2)], open('s.py').fileno())"
    (tmp_path / "s.py").write_text(text)
    plain = subprocess.run([sys.executable, "s.py"], cwd=tmp_path, capture_output=True, env=CLEAN, check=True)
    traced = subprocess.run([sys.executable, *RUN, "s.py"], cwd=tmp_path, capture_output=True, env=CLEAN, check=True)
    assert traced.stdout == plain.stdout
    assert list((tmp_path / "t").glob("*.arrows"))


DAEMON = """
import os, tenure
from tenure.trace import recorder
tenure.mark("before")
recorder.active().flush()
HOW
files = [open(f"user-{n}.bin", "wb", buffering=0) for n in range(COUNT)]
for turn in range(3):
    for file in files:
        file.write(b"U" * 50)
    tenure.mark(f"turn {turn}")
    recorder.active().flush()
for file in files:
    file.close()
recorder.active().stop()
os.mkdir("done")
"""
HOW = {
    "closerange": ("os.closerange(3, 256)", 12),
    "all of them": ("os.closerange(3, 1 << 16)", 980),
    "dup2": ("null = os.open('mine', os.O_RDWR | os.O_CREAT)\nfor n in range(3, 1000): os.dup2(null, n)", 3),
    "a daemon": ("if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nos.closerange(0, 1 << 16)", 980),
}


@pytest.mark.parametrize("how", HOW)
def test_files_of_a_program_that_closes_all_descriptors_are_its_own(tmp_path, how):
    text, count = HOW[how]
    (tmp_path / "s.py").write_text(DAEMON.replace("HOW", text).replace("COUNT", str(count)))
    subprocess.run(
        [sys.executable, *RUN, "s.py"], cwd=tmp_path, env=CLEAN, check=True, timeout=60, stdout=-1, stderr=-1
    )
    until = time.monotonic() + 30  # a daemon goes on when its first process has ended
    while not (tmp_path / "done").exists() and time.monotonic() < until:
        time.sleep(0.02)
    for n in range(count):
        assert (tmp_path / f"user-{n}.bin").read_bytes() == b"U" * 150
    if how == "dup2":
        assert (tmp_path / "mine").read_bytes() == b""
    found = [stream for path in (tmp_path / "t").glob("*.arrows") if (stream := streams.open_stream(path, []))]
    names = [name for one in found for batch in one.read(["name"]) for name in batch["name"].to_pylist()]
    assert names.count("turn 2") == 1
    assert names.count("before") == 1


# ------------------------------------------------------------------------------------------------ standard error


# A framework that cannot be recorded, and an exception that is explained: both are said on standard error.
SAYS = """
import os, sys
HOW
import tenure
tenure.mark("on")
os.unlink(next(p for p in os.scandir(os.environ["TENURE_TRACE"]) if p.name.endswith(".sums")))
os.closerange(512, 4096)
tenure.mark("lost")
from tenure.trace import recorder
recorder.active().flush()
assert recorder.active().failure
"""
ERRORS = {
    "a log": "os.dup2(os.open('log', os.O_WRONLY | os.O_CREAT), 2)",
    "a socket": "import socket\na, b = socket.socketpair()\nos.dup2(a.fileno(), 2)\nb.setblocking(False)",
    "closed, and another file": "os.close(2)\nopen('log', 'x').detach()",
    "its own file": "sys.stderr = open('log', 'w')",
}


@pytest.mark.parametrize("how", ["tenure run", "TENURE_TRACE"])
@pytest.mark.parametrize("name", ERRORS)
def test_messages_go_to_the_first_standard_error_and_nowhere_else(tmp_path, name, how):
    text = SAYS.replace("HOW", ERRORS[name])
    if name == "a socket":
        text += "try: print(b.recv(100))\nexcept BlockingIOError: print('nothing')\n"
    (tmp_path / "s.py").write_text(text)
    words, env = (["-m", "tenure", "run", "-o", "t"], {}) if how == "tenure run" else ([], {"TENURE_TRACE": "t"})
    command = [sys.executable, *words, "s.py"]
    done = subprocess.run(command, cwd=tmp_path, env=CLEAN | env, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert ("cannot write to the trace" in done.stderr) == (name == "its own file")
    if name == "a socket":
        assert done.stdout == "nothing\n"
    else:
        assert (tmp_path / "log").read_text() == ""


def test_a_child_with_another_standard_error_says_nothing(tmp_path):
    child = "import os, tenure; os.environ['TENURE_TRACE']; tenure.mark('x')"
    text = f"""
import os, subprocess, sys, tenure
tenure.mark("on")
os.environ["TENURE_TRACE"] = "s.py"  # no folder: each process would say so
for error in (subprocess.PIPE, None):
    done = subprocess.run([sys.executable, "-c", {child!r}], stderr=error, text=True, check=True)
    print(repr(done.stderr))
"""
    (tmp_path / "s.py").write_text(text)
    done = subprocess.run(
        [sys.executable, *RUN[:3], "-o", "t", "s.py"], cwd=tmp_path, env=CLEAN, text=True, capture_output=True
    )
    assert done.stdout == "''\nNone\n"
    assert done.stderr.count("no trace: ") == 1
