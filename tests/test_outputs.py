"""Files that the user names for findings, pages, exports and baselines: what is there is not destroyed."""

import json
import os
import stat
import subprocess
import sys

import pytest

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
CLEAN["TENURE_CACHE_DIR"] = CLEAN.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")


def tenure(folder, *words, **more):
    command = [sys.executable, "-m", "tenure", *words]
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.run(command, cwd=folder, text=True, env=CLEAN, timeout=100, **more)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "s.py").write_text("print('it ran')\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "data.json").write_text('[{"loss": 1}]')
    return tmp_path


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """The folder of a trace, as `t` in its own."""
    place = tmp_path_factory.mktemp("traced")
    (place / "s.py").write_text("import tenure; tenure.mark('x')")
    assert tenure(place, "run", "--quiet", "-o", "t", "s.py").returncode == 0
    return place / "t"


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("s.py", "it is an input of this command; use another file, such as s-2.py"),
        ("data.json", "it contains something else; use another file, such as data-2.json"),
        ("link", "it contains something else; use another file, such as link-2"),
        (".", "it is a folder"),
        ("no/such.json", "there is no folder "),
    ],
)
def test_findings_destroy_nothing(folder, file, why):
    (folder / "link").symlink_to("data.json")
    done = tenure(folder, "run", "--findings", file, "s.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert (folder / "s.py").read_text() == "print('it ran')\n"
    assert (folder / "data.json").read_text() == '[{"loss": 1}]'
    assert not list(folder.glob("tenure-*"))
    assert tenure(folder, "run", "--findings", "empty.py", "empty.py").returncode == 2


def test_findings_are_written_where_a_link_leads(folder):
    (folder / "link").symlink_to("found.json")
    for _ in range(2):  # there is nothing there, and what the first run wrote
        assert tenure(folder, "run", "--quiet", "--findings", "link", "s.py").returncode == 0
        assert (folder / "link").is_symlink()
        assert json.loads((folder / "found.json").read_text()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes devices")
def test_a_device_stays_one(folder, trace):
    os.mknod(folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert tenure(folder, "run", "--findings", "null", "s.py").returncode == 0
    assert tenure(folder, "export", str(trace), "--to", "csv", "-o", "null").returncode == 0
    assert tenure(folder, "view", str(trace), "-o", "null").returncode == 0
    assert stat.S_ISCHR((folder / "null").stat().st_mode)


@pytest.mark.parametrize("to", ["a file", "a pipe"])
def test_findings_follow_the_programs_output(folder, to):
    words = ("run", "--quiet", "--findings", "/dev/stdout", "s.py")
    if to == "a pipe":
        assert tenure(folder, *words).stdout == "it ran\n[]\n"
        return
    with (folder / "out").open("w") as out:
        assert tenure(folder, *words, stdout=out).returncode == 0
    assert (folder / "out").read_text() == "it ran\n[]\n"


def test_findings_reach_a_descriptor_that_was_passed_on(folder):
    reader, writer = os.pipe()
    done = tenure(folder, "run", "--quiet", "--findings", f"/dev/fd/{writer}", "s.py", pass_fds=(writer,))
    os.close(writer)
    assert (done.returncode, done.stdout, done.stderr) == (0, "it ran\n", "")
    assert os.read(reader, 100) == b"[]\n"
    os.close(reader)


def test_a_file_that_the_script_made_meanwhile_is_its_own(folder):
    (folder / "s.py").write_text("open('found.json', 'w').write('mine')")
    done = tenure(folder, "run", "--findings", "found.json", "s.py")
    assert done.returncode == 0
    assert (folder / "found.json").read_text() == "mine"
    assert "tenure: the findings are not written: cannot write to" in done.stderr


@pytest.mark.parametrize("more", [[], ["--quiet"]])
def test_a_pipe_that_nothing_reads_is_not_waited_for(folder, more):
    os.mkfifo(folder / "pipe")
    done = tenure(folder, "run", *more, "--findings", "pipe", "s.py")
    assert (done.returncode, done.stdout) == (0, "it ran\n")
    assert "tenure: the findings are not written: cannot write to" in done.stderr
    assert "pipe: no process reads from it" in done.stderr


def test_the_trace_and_the_findings_cannot_be_one(folder):
    done = tenure(folder, "run", "-o", "new", "--findings", "new", "s.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tenure: cannot write both the trace and the findings to new; name two places\n"


@pytest.mark.parametrize("name", ["data.json", "/dev/null", "dangling"])
def test_a_trace_needs_a_folder(folder, name):
    (folder / "dangling").symlink_to("nowhere")
    done = tenure(folder, "run", "-o", name, "s.py")
    assert (done.returncode, done.stdout) == (2, "")
    what = "a link that leads nowhere" if name == "dangling" else "not a folder"
    assert f"{name}: it is {what}; choose a new or empty folder" in done.stderr


@pytest.mark.parametrize("what", ["page", "csv"])
def test_pages_and_exports_destroy_nothing_unless_told_to(folder, trace, what):
    verb = ("view", str(trace), "--no-open") if what == "page" else ("export", str(trace), "--to", "csv")
    done = tenure(folder, *verb, "-o", "data.json")
    assert done.returncode == 2
    assert done.stderr.endswith("it contains something else; use another file, such as data-2.json, or pass -f\n")
    assert (folder / "data.json").read_text() == '[{"loss": 1}]'
    (folder / "link").symlink_to("data.json")
    assert tenure(folder, *verb, "-f", "-o", "link").returncode == 0
    assert (folder / "link").is_symlink()
    written = (folder / "data.json").read_text()
    assert "tenure" in written if what == "page" else written.startswith("process,buffer,")
    if what == "page":  # the next one may take its place
        assert tenure(folder, *verb, "-o", "data.json").returncode == 0
    assert tenure(trace, *verb, "-f", "-o", ".").returncode == 2


def test_exports_of_one_name_get_numbers(folder, trace):
    names = [tenure(folder, "export", str(trace), "--to", "csv").stdout for _ in range(2)]
    assert names == ["t-buffers.csv\n", "t-buffers-2.csv\n"]


def test_an_export_is_written_to_standard_output(folder, trace):
    done = tenure(folder, "export", str(trace), "--to", "csv", "-o", "/dev/stdout")
    assert done.stdout.startswith("process,buffer,")
    assert done.stdout.endswith("/dev/stdout\n")


def test_a_baseline_replaces_a_baseline_only(folder):
    assert tenure(folder, "check", "--write-baseline", "data.json", "s.py").returncode == 2
    assert (folder / "data.json").read_text() == '[{"loss": 1}]'
    for _ in range(2):
        assert tenure(folder, "check", "--write-baseline", "base.json", "s.py").returncode == 0
    assert json.loads((folder / "base.json").read_text())["version"] == 1
