"""`tenure run`: a script cannot tell that it is recorded, and neither can whoever called it."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PYTHON = [sys.executable]
RUN = [sys.executable, "-m", "tenure", "run"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
# From 3.12 on a fork warns where there are threads, and a recorder has one (docs/limits.md).
CLEAN["PYTHONWARNINGS"] = "ignore:This process:DeprecationWarning"


@pytest.fixture
def needs_torch():
    if "torch" not in os.environ.get("TENURE_TEST_FRAMEWORKS", "torch"):
        pytest.skip("torch is not among TENURE_TEST_FRAMEWORKS")


def outcome(command, folder, **more):
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, env=CLEAN, check=False, **more)
    return done.returncode, *(re.sub(rb"at 0x[0-9a-f]+", b"at 0x", text) for text in (done.stdout, done.stderr))


def both(folder, *command, **more):
    """What Python does, and what it does when recorded; they must be the same."""
    plain = outcome([*PYTHON, *command], folder, **more)
    traced = outcome([*RUN, "--quiet", "-f", "-o", "trace", *command], folder, **more)
    assert traced == plain
    assert (folder / "trace" / "meta.json").exists()
    return plain


def script(folder, text, name="s.py"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# A framework that costs nothing to import, and makes the recorder start: by its name it is one.
FAKE = "__version__ = '0'\n"

SCRIPTS = {
    "its own arguments": "import sys; print(sys.argv, sys.path[0], sys.flags, sys.orig_argv[1:])",
    "its own __main__": """
import __main__, pickle, sys
class A: pass
print(__name__, __file__, __spec__, __doc__, __main__.__dict__ is globals(), sorted(globals()))
print(pickle.loads(pickle.dumps(A())).__class__ is A, A.__module__)
""",
    "an exception": "def f(n):\n    return 1 / n\n\nf(0)\n",
    "a chain of exceptions": """
try:
    {}["x"]
except KeyError as error:
    raise RuntimeError("no x") from error
""",
    "an exception in a group": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
    "a syntax error": "def f(:\n",
    "a null byte": "# \x00\n",
    "exit 3": "import sys; print('out'); sys.exit(3)",
    "exit with a text": "import sys; sys.exit('text')",
    "exit with nothing": "raise SystemExit",
    "os._exit": "import os; print('lost'); os._exit(7)",
    "an abort": "import os; os.abort()",
    "a kill by itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "a KeyboardInterrupt of its own": "raise KeyboardInterrupt",
    "a recursion": "def f(): f()\nf()\n",
    "atexit": "import atexit; atexit.register(print, 'bye'); print('hi')",
    "atexit that fails": "import atexit; atexit.register(lambda: 1 / 0)",
    "a thread that fails": """
import threading
def work(): raise ValueError("in a thread")
t = threading.Thread(target=work, name="worker"); t.start(); t.join()
print(threading.current_thread() is threading.main_thread())
""",
    "a thread that outlives the main one": """
import threading, time
threading.Thread(target=lambda: (time.sleep(0.2), print("late"))).start()
print("main is done")
""",
    "a fork": """
import os, sys
pid = os.fork()
if pid == 0:
    sys.exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
    "a subprocess": """
import subprocess, sys
done = subprocess.run([sys.executable, "-c", "import sys; print('child'); sys.exit(9)"], capture_output=True, text=True)
print(done.returncode, done.stdout, done.stderr)
print(subprocess.run(["/bin/sh", "-c", "echo sh; exit 2"], capture_output=True))
""",
    "multiprocessing": """
import multiprocessing as mp
class Thing:
    def __init__(self, n): self.n = n
def double(thing): return Thing(2 * thing.n)
if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        with mp.get_context(how).Pool(1) as pool:
            print(how, [thing.n for thing in pool.map(double, [Thing(1), Thing(2)])])
""",
    "warnings": "import warnings; warnings.warn('careful')",
    "its directory": "import os; print(os.getcwd(), os.listdir('.') == os.listdir(os.getcwd()))",
    "what it imported": "import sys; print('pyarrow' in sys.modules, 'numpy' in sys.modules, 'duckdb' in sys.modules)",
    "signal handlers": """
import signal
print([(s.name, signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)])
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
""",
    "a closed pipe": "import sys; sys.stdout.close()",
    "an exec of itself": """
import os, sys
if len(sys.argv) < 2:
    os.execv(sys.executable, [sys.executable, __file__, "again"])
print(sys.argv[1:])
""",
    "a framework that fails": "import jax",
}


UNREAD = {"a syntax error", "a null byte", "what it imported"}  # these say nothing with an import before


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_behaves_as_it_does_without(tmp_path, name):
    script(tmp_path, SCRIPTS[name])
    script(tmp_path, "import sys\nraise ImportError('broken here')\n", "jax/__init__.py")
    plain = both(tmp_path, "s.py")
    assert plain[0] != 0 or plain[1] or plain[2] or name in ("exit with nothing", "a closed pipe")


@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - UNREAD))
def test_and_so_it_does_with_a_recorder_at_work(tmp_path, name):
    script(tmp_path, f"import torch\n{SCRIPTS[name]}")
    script(tmp_path, FAKE, "torch/__init__.py")
    script(tmp_path, "import sys\nraise ImportError('broken here')\n", "jax/__init__.py")
    both(tmp_path, "s.py")
    assert list((tmp_path / "trace").glob("events-*.arrows"))


@pytest.mark.parametrize(
    "words",
    [
        ["--quiet", "-o", "x", "--steps=3"],
        ["-m", "json"],
        ["--", "a", "--", "-h"],
        ["", " ", "ü", "a=b", "--help"],
        ["@file", "-"],
    ],
)
def test_arguments_are_the_scripts_whatever_they_look_like(tmp_path, words):
    script(tmp_path, "import sys; print(sys.argv)")
    code, out, _ = both(tmp_path, "s.py", *words)
    assert code == 0
    assert out.decode().strip() == str(["s.py", *words])


def test_a_module_runs_as_by_python_m(tmp_path):
    script(tmp_path, "", "pack/__init__.py")
    script(tmp_path, "VALUE = 5", "pack/other.py")
    text = "import sys\nfrom .other import VALUE\nprint(VALUE, sys.argv, sys.path[0], __spec__, __package__)\n1 / 0\n"
    script(tmp_path, text, "pack/part.py")
    code, out, err = both(tmp_path, "-m", "pack.part", "--quiet", "-m", "x")
    assert code == 1
    assert out.startswith(b"5 [")
    assert b"ZeroDivisionError" in err


@pytest.mark.parametrize("module", [("-m", "pack.part"), ("-mpack.part",)])
def test_a_module_is_named_even_if_its_package_imports_the_framework(module, tmp_path, needs_torch):
    script(tmp_path, "import torch", "pack/__init__.py")  # before Python has found the module
    script(tmp_path, "import torch\nx = torch.ones(3)", "pack/part.py")
    both(tmp_path, *module, "--size", "3")
    done = outcome([sys.executable, "-m", "tenure", "report", "trace"], tmp_path)
    assert done[1].startswith(b"trace: pack.part --size 3\n")


def test_a_module_that_is_not_there(tmp_path):
    assert both(tmp_path, "-m", "no_such_module")[0] == 1


def test_a_folder_and_a_program_on_stdin(tmp_path):
    script(tmp_path, "import sys; print(sys.argv, __spec__)", "app/__main__.py")
    assert both(tmp_path, "app", "x")[0] == 0
    assert both(tmp_path, "-", "x", input=b"import sys; print(sys.argv)")[1] == b"['-', 'x']\n"


def test_a_script_elsewhere_imports_its_siblings(tmp_path):
    script(tmp_path, "NAME = 'sibling'", "far/away/helper.py")
    # Names of ours and of the standard library: what tenure imports must not be these.
    for name in ("tenure_helper", "queue", "streams", "pyarrow"):
        script(tmp_path, "raise SystemError('shadowed')", f"far/away/{name}.py")
    script(tmp_path, "import helper, sys; print(helper.NAME, sys.path[0], sys.argv)", "far/away/s.py")
    assert both(tmp_path, "far/away/s.py")[0] == 0


def test_unicode_and_blanks_in_paths(tmp_path):
    folder = tmp_path / "größe 大きさ"
    script(folder, FAKE, "jax.py")
    script(folder, "import jax, sys; print(ascii(sys.argv), ascii(__file__))", "träin me.py")
    assert both(folder, "träin me.py", "ÿ")[0] == 0
    done = subprocess.run([*RUN, "träin me.py"], cwd=folder, capture_output=True, text=True, env=CLEAN, check=False)
    assert done.returncode == 0
    assert (folder / "tenure-träin me" / "meta.json").exists()


def test_stdin_is_the_scripts(tmp_path):
    script(tmp_path, "print(input().upper()); import sys; print(len(sys.stdin.read()))")
    assert both(tmp_path, "s.py", input=b"hello\n" + b"x" * 100_000)[1] == b"HELLO\n100000\n"


def test_options_of_python_reach_the_script(tmp_path):
    script(tmp_path, "import sys; print(sys.flags.dev_mode, sys.flags.optimize, sys.warnoptions, __debug__)")
    plain = outcome([*PYTHON, "-O", "-W", "error", "s.py"], tmp_path)
    traced = outcome([sys.executable, "-O", "-W", "error", "-m", "tenure", "run", "--quiet", "s.py"], tmp_path)
    assert traced == plain


@pytest.fixture
def as_from_a_shell():
    """Signals that whoever runs the tests ignores (nohup does) are ignored by children too."""
    ignored = [
        kind for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(kind) == signal.SIG_IGN
    ]
    for kind in ignored:
        signal.signal(kind, signal.SIG_DFL)
    yield
    for kind in ignored:
        signal.signal(kind, signal.SIG_IGN)


@pytest.mark.parametrize("torch", [True, False], ids=["recording", "waiting"])
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_signals_end_it_as_they_do(tmp_path, kind, torch, as_from_a_shell):
    script(tmp_path, FAKE, "torch/__init__.py")
    text = (
        "import torch\n" if torch else ""
    ) + "import time\nprint('ready', flush=True)\ntime.sleep(30)\nprint('no')\n"
    script(tmp_path, text)

    def ended(command):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, env=CLEAN)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.1)
        process.send_signal(kind)
        out, err = process.communicate(timeout=20)
        return process.returncode, out, err

    plain = ended([*PYTHON, "s.py"])
    assert plain[0] == -kind
    assert ended([*RUN, "--quiet", "-o", "trace", "s.py"]) == plain
    if torch:
        assert list((tmp_path / "trace").glob("events-*.arrows"))


def test_a_handled_interrupt_is_handled_once(tmp_path, as_from_a_shell):
    text = """
import time
try:
    print("ready", flush=True)
    time.sleep(30)
except KeyboardInterrupt:
    time.sleep(0.3)
    print("saved")
raise SystemExit(12)
"""
    script(tmp_path, text)
    process = subprocess.Popen(
        [*RUN, "--quiet", "s.py"], cwd=tmp_path, stdout=-1, stderr=-1, env=CLEAN, start_new_session=True
    )
    assert process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.communicate(timeout=20) == (b"saved\n", b"")
    assert process.returncode == 12


# ------------------------------------------------------------------------------------------------ what tenure says


def run(folder, *words, **more):
    return subprocess.run([*RUN, *words], cwd=folder, capture_output=True, text=True, env=CLEAN, timeout=60, **more)


def test_the_last_lines_come_after_the_script(tmp_path, needs_torch):
    script(tmp_path, "import sys, torch\nx = torch.ones(10)\nsys.stderr.write('mine\\n')\nprint('out')\nsys.exit(3)")
    done = run(tmp_path, "s.py")
    assert done.returncode == 3
    assert done.stdout == "out\n"
    mine, *ours = done.stderr.splitlines()
    assert mine == "mine"
    result, peak, trace, following = ours
    assert result == "tenure: leaks not checked: the run was too short (0 of about 8 leak checks); record 16 iterations"
    assert peak == "tenure: peak memory 40 bytes on cpu, all of it allocated at s.py:2"
    assert re.fullmatch(r"tenure: trace: tenure-s \(\d+ events, [\d.]+ KiB\)", trace)
    assert following == "tenure: next: `tenure report tenure-s` (text) or `tenure view tenure-s` (page)"
    assert len(list((tmp_path / "tenure-s").glob("events-*.arrows"))) == 1


def test_the_line_comes_after_what_was_still_to_be_written(tmp_path):
    script(tmp_path, "import atexit; atexit.register(print, 'last'); print('out')")
    done = subprocess.run([*RUN, "s.py"], cwd=tmp_path, stdout=-1, stderr=subprocess.STDOUT, text=True, env=CLEAN)
    first, last, *ours = done.stdout.splitlines()
    assert (first, last) == ("out", "last")
    assert ours[0] == "tenure: nothing was recorded: the script did not import torch, jax or tensorflow"


def test_default_folders_do_not_replace_each_other(tmp_path):
    script(tmp_path, FAKE, "jax.py")
    script(tmp_path, "import jax")
    for _ in range(3):
        assert run(tmp_path, "s.py").returncode == 0
    assert sorted(path.name for path in tmp_path.glob("tenure-*")) == ["tenure-s", "tenure-s-2", "tenure-s-3"]


def test_the_default_folder_is_replaced_if_the_user_says_so(tmp_path):
    script(tmp_path, FAKE, "jax.py")
    script(tmp_path, "import jax")
    for word in ("one", "two"):
        assert run(tmp_path, "-f", "s.py", word).returncode == 0
    assert [path.name for path in tmp_path.glob("tenure-*")] == ["tenure-s"]
    assert json.loads((tmp_path / "tenure-s/meta.json").read_text())["command"] == ["s.py", "two"]


@pytest.mark.parametrize("words", [("s.py",), ("-o", "deep/er", "s.py"), ("-m", "nosuchmodule")])
@pytest.mark.parametrize("text", ["print(", "1 / 0", "import nosuchmodule", "print('no framework')"])
def test_a_run_in_which_nothing_was_recorded_leaves_no_folder(tmp_path, text, words):
    script(tmp_path, text)
    done = run(tmp_path, *words)
    failed = done.returncode and words[0] != "-m"  # there, Python itself leaves: no exception ends the script
    what = "failed before it imported" if failed else "did not import"
    *_, last = done.stderr.splitlines()
    assert last == f"tenure: nothing was recorded: the script {what} torch, jax or tensorflow"
    assert [path.name for path in (*tmp_path.glob("tenure*"), *tmp_path.glob("deep/*"))] == []


def test_a_folder_stays_if_it_was_there_before_or_a_process_may_still_record(tmp_path):
    (tmp_path / "mine").mkdir()
    script(tmp_path, "")
    assert run(tmp_path, "-o", "mine", "s.py").returncode == 0
    assert (tmp_path / "mine").is_dir()
    child = "import time; time.sleep(60)"
    script(
        tmp_path,
        f"import subprocess, sys\nprint(subprocess.Popen([sys.executable, '-c', {child!r}], stdout=-3, stderr=-3).pid)",
    )
    done = run(tmp_path, "s.py")
    os.kill(int(done.stdout), signal.SIGKILL)
    assert (tmp_path / "tenure-s" / "meta.json").exists()


def test_a_folder_that_cannot_be_written_to(tmp_path):
    script(tmp_path, "print('it ran')")
    done = run(tmp_path, "-o", "/proc/no/such", "s.py")  # where not even root can make one
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("; choose another folder with -o FOLDER\n")


def test_a_named_folder_is_replaced_if_the_user_says_so(tmp_path):
    script(tmp_path, FAKE, "jax.py")
    script(tmp_path, "import jax, sys; print(sys.argv)")
    assert run(tmp_path, "-o", "deep/er", "s.py", "one").returncode == 0
    done = run(tmp_path, "-o", "deep/er", "s.py", "two")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "tenure: deep/er already contains a trace; pass -f (in Python: replace=True) to replace it, "
        "or use a new or empty folder, such as deep/er-2\n"
    )
    assert json.loads((tmp_path / "deep/er/meta.json").read_text())["command"] == ["s.py", "one"]
    assert run(tmp_path, "-f", "-o", "deep/er", "s.py", "two").returncode == 0
    assert json.loads((tmp_path / "deep/er/meta.json").read_text())["command"] == ["s.py", "two"]
    assert len(list((tmp_path / "deep/er").glob("*.arrows"))) <= 1


def test_findings_are_an_array(tmp_path):
    script(tmp_path, "import os; os.chdir('/'); raise SystemExit(5)")
    assert run(tmp_path, "--quiet", "--findings", "found.json", "s.py").returncode == 5
    assert json.loads((tmp_path / "found.json").read_text()) == []


def test_findings_of_an_earlier_run_do_not_stay(tmp_path):
    script(tmp_path, "import os; os._exit(0)")
    (tmp_path / "found.json").write_text("[]\n")
    assert run(tmp_path, "--findings", "found.json", "s.py").returncode == 0
    assert (tmp_path / "found.json").read_text() == ""


def test_steps_end_the_recording_and_not_the_script(tmp_path, needs_torch):
    text = """
import os, tenure, torch
for n in range(5):
    tenure.mark(f"in {n}")
    tenure.step()
print("all", os.environ.get("TENURE_TRACE"))
"""
    script(tmp_path, text)
    done = run(tmp_path, "-o", "t", "--steps", "2", "s.py")
    assert (done.returncode, done.stdout) == (0, "all None\n")
    events = tmp_path / "t"
    marks = [name for name in recorded(events, "name") if name and name.startswith("in ")]
    assert marks == ["in 0", "in 1"]


def recorded(folder, column):
    import pyarrow as pa

    (path,) = folder.glob("*.arrows")
    return pa.ipc.open_stream(path).read_all()[column].to_pylist()


WRONG = {
    "no such script": (["nothing.py"], "no such script: nothing.py"),
    "no script": ([], "no script to run"),
    "no module": (["-m"], "-m needs the name of a module"),
    "an unknown option": (["--fast", "s.py"], "--fast"),
    "steps": (["--steps", "many", "s.py"], "'many' is not a number of steps; use 1 or more"),
    "a folder that is a file": (["-o", "s.py", "s.py"], "cannot write a trace to"),
    "a folder under a file": (["-o", "s.py/x", "s.py"], "cannot write a trace to"),
    "a folder with other things": (
        ["-o", "other", "s.py"],
        "cannot write a trace to other: it contains thesis.txt; use a new or empty folder, such as other-2",
    ),
    "findings nowhere": (
        ["--findings", "no/such/x.json", "s.py"],
        "cannot write to no/such/x.json: there is no folder",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_is_said_in_words(tmp_path, name):
    words, text = WRONG[name]
    script(tmp_path, "print('it ran')")
    script(tmp_path, "precious", "other/thesis.txt")
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert (tmp_path / "other/thesis.txt").read_text() == "precious"


def test_a_terminal_sees_the_scripts_lines_and_a_title(tmp_path):
    script(tmp_path, "import time\nprint('first')\ntime.sleep(1.3)\nprint('second')")
    mine, theirs = pty.openpty()
    environment = CLEAN | {"TERM": "xterm"}
    process = subprocess.Popen([*RUN, "s.py"], cwd=tmp_path, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    try:
        while more := os.read(mine, 4096):
            seen += more
    except OSError:  # what Linux says when the other end is closed
        pass
    assert process.wait(20) == 0
    assert b"\x1b]2;tenure: 0:01\a" in seen
    words = re.sub(rb"\x1b\](2;tenure: \d:\d\d)\a|\x1b\[2[23];2t", b"", seen)
    assert words.startswith(b"first\r\nsecond\r\ntenure: \x1b[33mnothing was recorded:\x1b[0m the script")


def test_without_an_installation_it_runs_too(tmp_path):
    """On PYTHONPATH alone, no .pth file is read."""
    import pyarrow

    import tenure

    script(
        tmp_path, "import sys; print(sys.path[0] != '', [p for p in sys.path if 'tenure' in p.split('/')])\nimport jax"
    )
    script(tmp_path, FAKE, "jax.py")
    script(tmp_path, "print('customised')", "custom/sitecustomize.py")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "bare"], cwd=tmp_path, check=True)
    places = [tmp_path / "custom", Path(tenure.__file__).parents[1], Path(pyarrow.__file__).parents[1]]
    environment = CLEAN | {"PYTHONPATH": os.pathsep.join(map(str, places))}
    python = str(tmp_path / "bare/bin/python")
    plain = subprocess.run([python, "s.py"], cwd=tmp_path, capture_output=True, env=environment)
    traced = subprocess.run(
        [python, "-m", "tenure", "run", "--quiet", "-o", "t", "s.py"],
        cwd=tmp_path,
        capture_output=True,
        env=environment,
    )
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.startswith(b"customised\n")
    # Python told `tenure` itself, and the script.
    assert traced.stdout == b"customised\n" + plain.stdout
    assert (traced.returncode, traced.stderr) == (0, b"")
    assert list((tmp_path / "t").glob("events-*.arrows"))
