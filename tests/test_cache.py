"""The cache: nothing is loaded that another user could have put there, and one folder serves all runs."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tenure import cache

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "XDG_"))}
NOBODY = 12345  # a number without an entry among the users
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root makes files of other users")
LOADED = """
import json
from tenure import native
module = native.load("tenure_births", "births.c")
print(json.dumps([getattr(module, "__file__", None), native.reason("tenure_births")]))
"""


@pytest.fixture
def open_place():
    """A folder that other users can look into."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home in a folder, and another one for what is temporary; both empty."""
    for name in ("TENURE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, place in (("HOME", "shared/home"), ("TMPDIR", "temporary")):
        (tmp_path / place).mkdir(parents=True)
        monkeypatch.setenv(name, str(tmp_path / place))
    return tmp_path / "shared/home"


def loaded(**environment):
    """What a process loads, and why not."""
    environment = CLEAN | {"TMPDIR": os.environ["TMPDIR"]} | environment
    done = subprocess.run([sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def modes(place):
    return {stat.S_IMODE(path.stat().st_mode) for path in [place, *place.rglob("*")]}


def second_choice():
    return Path(os.environ["TMPDIR"], f"tenure-{os.getuid()}", "native")


# ------------------------------------------------------------------------------------------------ other users


def test_the_home_is_used_if_it_is_the_users(home):
    assert cache.folder("native") == home / ".cache/tenure/native"
    assert cache.unusable("native") == []
    assert modes(home / ".cache") == {0o700}


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
@pytest.mark.parametrize("which", [".", "..", ".cache", ".cache/tenure"])
@needs_root
def test_a_folder_that_others_can_write_is_not_used(home, which, mode):
    (home / which).mkdir(parents=True, exist_ok=True)
    os.chown(home / which, 0, 12)
    (home / which).chmod(mode)
    found = cache.folder("native")
    # Where the sticky bit is set, others cannot take what is ours away; our own folder is simply closed.
    ours = which == ".cache/tenure" or mode & 0o1000
    assert found == (home / ".cache/tenure/native" if ours else second_choice())
    assert bool(cache.unusable("native")) is not bool(ours)
    if not ours:
        assert "can be written by other users" in cache.unusable("native")[0]
        assert not (home / ".cache/tenure").exists()


@pytest.mark.parametrize("which", [".", "..", ".cache", ".cache/tenure/native", "a link"])
@needs_root
def test_a_folder_of_another_user_is_not_used(home, which):
    if which == "a link":  # in a folder where they may not touch what is ours
        home.chmod(0o1777)
        (home / "real").mkdir()
        (home / ".cache").symlink_to("real")
        os.chown(home / ".cache", NOBODY, NOBODY, follow_symlinks=False)
    else:
        (home / which).mkdir(parents=True, exist_ok=True)
        os.chown(home / which, NOBODY, NOBODY)
    assert cache.folder("native") == second_choice()
    assert f"belongs to user {NOBODY}" in cache.unusable("native")[0]


@needs_root
def test_the_second_choice_is_checked_too(home):
    home.parent.chmod(0o777)
    (second_choice().parent).mkdir()
    os.chown(second_choice().parent, NOBODY, NOBODY)
    with pytest.raises(OSError, match=f"there is no cache: .* belongs to user {NOBODY}"):
        cache.folder("native")


@needs_root
def test_what_another_user_planted_is_not_loaded(home, tmp_path):
    file, _ = loaded(HOME=str(home))
    assert Path(file).parent == home / ".cache/tenure/native"
    assert modes(home / ".cache") == {0o700, 0o600}
    os.chown(file, NOBODY, NOBODY)
    assert loaded(HOME=str(home)) == [None, f"{file} belongs to another user, or can be written by one; remove it"]
    os.chown(file, 0, 0)
    os.chmod(file, 0o666)
    assert loaded(HOME=str(home))[0] is None
    # As root, with the home of another user: nothing of his is loaded, and nothing is left in his home.
    os.chmod(file, 0o600)
    os.chown(home, NOBODY, NOBODY)
    before = sorted(home.rglob("*"))
    assert loaded(HOME=str(home))[0].startswith(f"{second_choice()}/")
    assert sorted(home.rglob("*")) == before


def test_an_open_umask_does_not_open_it(home):
    before = os.umask(0)
    try:
        file, _ = loaded(HOME=str(home))
    finally:
        os.umask(before)
    assert file is not None
    assert modes(home / ".cache") == {0o700, 0o600}


# ------------------------------------------------------------------------------------------------ no home


@pytest.mark.parametrize("how", ["a home that is not there", "no home at all", "read-only"])
@needs_root
def test_without_a_home_one_folder_serves_all_runs(open_place, how):
    (open_place / "home").mkdir()  # which this user cannot write
    os.chown(open_place, NOBODY, NOBODY)
    environment = {name: value for name, value in CLEAN.items() if name != "HOME"} | {"TMPDIR": str(open_place)}
    if how != "no home at all":
        environment["HOME"] = "/nonexistent" if how.startswith("a home") else str(open_place / "home")
    before = []
    for _ in range(2):
        as_nobody = [
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            sys.executable,
            "-c",
            LOADED,
        ]
        done = subprocess.run(as_nobody, env=environment, capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done.stderr
        file = json.loads(done.stdout)[0]
        assert Path(file).parent == open_place / f"tenure-{NOBODY}/native"
        before.append((file, os.stat(file).st_mtime_ns))
    assert before[0] == before[1]
    assert sorted(path.name for path in open_place.iterdir()) == ["home", f"tenure-{NOBODY}"]
    assert not os.path.exists("/nonexistent")


# ------------------------------------------------------------------------------------------------ its name


@pytest.mark.parametrize("name", ["TENURE_CACHE_DIR", "XDG_CACHE_HOME"])
def test_a_variable_names_it(home, tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, str(tmp_path / "named/deep"))
    assert cache.folder("check") == tmp_path / "named/deep/tenure/check"
    monkeypatch.setenv("TENURE_CACHE_DIR", str(tmp_path / "first"))
    assert cache.folder("check") == tmp_path / "first/tenure/check"


@needs_root
def test_the_doctor_says_where_it_is_and_why_not_elsewhere(home):
    home.parent.chmod(0o777)
    environment = CLEAN | {"HOME": str(home), "TMPDIR": os.environ["TMPDIR"], "PATH": "/nonexistent"}
    command = [sys.executable, "-m", "tenure", "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"cache         {second_choice()}\n" in done.stdout
    assert f"{home}/.cache/tenure/native is not used: {home.parent} can be written by other users\n" in done.stdout


def test_a_compilation_that_failed_is_not_repeated_in_every_process(home, tmp_path):
    calls, broken = tmp_path / "calls", tmp_path / "broken-cc"
    broken.write_text(f"#!/bin/sh\necho called >> {calls}\necho 'error: this compiler is broken' >&2\nexit 1\n")
    broken.chmod(0o755)
    first, second = (loaded(HOME=str(home), CC=str(broken)) for _ in range(2))
    assert first == [None, "the compiler failed: error: this compiler is broken"]
    assert second[0] is None
    assert second[1].startswith("the compiler failed: error: this compiler is broken (remove ")
    assert calls.read_text().count("called") == 1
    assert loaded(HOME=str(home))[0] is not None, "another compiler is tried at once"


def test_what_killed_compilations_left_is_removed(home):
    assert loaded(HOME=str(home), CC="false")[0] is None
    native = home / ".cache" / "tenure" / "native"
    old, new = native / "building-old", native / "building-new"
    for folder in (old, new):
        folder.mkdir(mode=0o700)
    os.utime(old, (0, 0))
    assert loaded(HOME=str(home))[0] is not None
    assert not old.exists()
    assert new.exists()
