"""A recorded program in odd places: output, exit code and files are what they are without tenure."""

import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import ExitStack
from itertools import chain, combinations
from pathlib import Path

import pytest

import tenure

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "PYTHON"))}
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
NOBODY = 12345  # a number without an entry among the users
PROGRAM = """
import os, sys
tenure = __import__("tenure")
FRAMEWORK
tenure.mark("here")
numbers = []
for n in range(40):
    file = open(f"{sys.argv[1]}/file-{n}", "wb")
    numbers.append(file)
    file.write(b"x" * n)
with open(f"{sys.argv[1]}/facts", "w") as facts:
    print([file.fileno() for file in numbers], oct(os.umask(0o22)), sys.flags, sys.argv, file=facts)
    print([getattr(stream, "encoding", None) for stream in (sys.stdin, sys.stdout, sys.stderr)], file=facts)
    print(sorted(name for name in os.environ if not name.startswith("TENURE_")), os.getcwd(), file=facts)
for stream in (sys.stdout, sys.stderr):
    try:
        print("said", file=stream)
    except OSError as error:
        print(error, file=open(f"{sys.argv[1]}/errors", "a"))
LAST
sys.exit(7)
"""
HOW = ("run", "TENURE_TRACE")
OURS = re.compile(r"^tenure: .*\n(?:  .*\n)*", re.MULTILINE)


class Odd:
    """What is odd: the options of Python, the environment, what the child does before, how the program begins and ends."""

    def __init__(
        self,
        *,
        options=(),
        environment=None,
        before=lambda: None,
        framework="",
        last="",
        streams=None,
        by=(),
        readonly=False,
    ):
        self.options, self.environment, self.before = options, environment or {}, before
        self.text = PROGRAM.replace("FRAMEWORK", framework).replace("LAST", last)
        self.streams, self.by, self.readonly = streams or {}, by, readonly
        self.trace = None


def outcome(folder, odd, how, name):
    """What the program does, and what is left of it."""
    place = folder / name
    (place / "data").mkdir(parents=True)
    for one in (folder, place, place / "data"):
        one.chmod(0o755 if odd.readonly and one is place else 0o777)
    script = place / "s.py"
    script.write_text(odd.text)
    environment = CLEAN | odd.environment
    words = []
    if how == "run":
        words = ["-m", "tenure", "run", "-o", odd.trace or str(place / "trace")]
    elif how == "TENURE_TRACE":
        environment["TENURE_TRACE"] = odd.trace or str(place / "trace")
    environment = {name: value for name, value in environment.items() if value is not None}
    command = [*odd.by, sys.executable, *odd.options, *words, str(script), "data"]
    with ExitStack() as stack:
        streams = {name: stack.enter_context(open(path, "w")) for name, path in odd.streams.items()}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        done = subprocess.run(command, cwd=place, env=environment, preexec_fn=odd.before, timeout=100, **streams)
    files = {path.name: path.read_text().replace(str(place), "PLACE") for path in (place / "data").iterdir()}
    left = sorted(path.name for path in place.iterdir() if path.name != "trace")
    texts = [(text or b"").decode().replace(str(place), "PLACE") for text in (done.stdout, done.stderr)]
    return (
        done.returncode,
        *texts,
        files,
        left,
        sorted(path.name for path in Path(odd.trace or place / "trace").glob("*")),
    )


def same(folder, odd, *, hows=HOW, recorded=HOW, says=""):
    """The program does the same; and where it can be recorded, it was. What tenure says comes after what it said."""
    code, out, err, *rest, nothing = outcome(folder, odd, "", "plain")
    assert code in (7, 120), err  # the second one, where Python could not write out its text in the end
    assert nothing == []
    for how in hows:
        found = outcome(folder, odd, how, how)
        assert found[:2] == (code, out)
        assert list(found[3:-1]) == rest
        if recorded is not None:
            assert any(name.endswith(".arrows") for name in found[-1]) is (how in recorded), found
        ours = "".join(OURS.findall(found[2]))
        assert OURS.sub("", found[2]) == err
        assert ours == "" or says or recorded is None or how == "run"
        assert says in ours


def closing(*numbers):
    def before():
        for number in numbers:
            os.close(number)

    return before


def limited(what, amount):
    return lambda: resource.setrlimit(what, (amount, amount))


def masked(mask):
    return lambda: os.umask(mask)


STREAMS = tuple(chain.from_iterable(combinations((0, 1, 2), count) for count in (1, 2, 3)))
ODD = {
    **{f"without {numbers}": Odd(before=closing(*numbers)) for numbers in STREAMS},
    "no place for errors": Odd(streams={"stderr": "/dev/full"}),
    "no place for output": Odd(streams={"stdout": "/dev/full"}),
    "no home": Odd(environment={"HOME": None}),
    "a home that is not there": Odd(environment={"HOME": "/nonexistent"}),
    "umask 0": Odd(before=masked(0)),
    "umask 077": Odd(before=masked(0o77)),
    "few files": Odd(before=limited(resource.RLIMIT_NOFILE, 64)),
    "LANG=C": Odd(environment={"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "-O": Odd(options=["-O"]),
    "-OO": Odd(options=["-OO"]),
    "-I": Odd(options=["-I"]),
    "-W error": Odd(options=["-W", "error"]),
    "-X dev": Odd(options=["-X", "dev"]),
    "-u -B": Odd(options=["-u", "-B"]),
    "another folder at the end": Odd(last="os.chdir('/')"),
    "a folder that is gone at the end": Odd(last="os.mkdir('sub'); os.chdir('sub'); os.rmdir('../sub')"),
    "all closed in the end": Odd(last="os.closerange(0, 4096)"),
}
TORCH = """
import torch
x = [torch.ones(100) * n for n in range(50)]
assert float(sum(x).sum()) == 122500
"""


LESS = {
    "without (0,)",
    "without (0, 1)",
    "without (0, 2)",
    "without (1, 2)",
    "-OO",
    "-X dev",
    "-u -B",
    "umask 077",
    "no home",
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LESS)) for name in ODD])
def test_the_program_does_the_same(tmp_path, name):
    same(tmp_path, ODD[name])


@pytest.mark.parametrize("name", ["few files", "without (0, 1, 2)", "all closed in the end", "-W error"])
@pytest.mark.long
def test_so_it_does_with_torch(tmp_path, name):
    odd = ODD[name]
    odd.text = odd.text.replace("tenure.mark", f"{TORCH}\ntenure.mark")
    same(tmp_path, odd)


def test_python_that_reads_no_site_is_not_recorded_and_not_disturbed(tmp_path):
    home = os.path.dirname(os.path.dirname(tenure.__file__))
    packages = sysconfig.get_path("purelib")
    odd = Odd(options=["-S"], environment={"PYTHONPATH": os.pathsep.join((home, packages))})
    same(tmp_path, odd, recorded=(), hows=("TENURE_TRACE",))
    same(tmp_path / "run", odd, recorded=(), hows=("run",), says="nothing will be recorded: with -S, ")


@needs_root
def test_a_working_folder_that_cannot_be_written():
    nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        odd = Odd(by=nobody, environment={"TMPDIR": made}, readonly=True)
        same(
            Path(made),
            odd,
            hows=("TENURE_TRACE",),
            recorded=(),
            says="no trace: cannot write a trace to trace: Permission",
        )
        odd.trace = f"{made}/elsewhere"
        for one in ("plain", "TENURE_TRACE"):
            shutil.rmtree(f"{made}/{one}")
        same(Path(made), odd, hows=("TENURE_TRACE",))


GARBAGE = [
    "[]",
    "{",
    "5",
    "null",
    "{}",
    '{"pid": "1"}',
    '{"pid": 1, "after": ["x", 5]}',
    "[" * 50_000,
    '{"pid": 1, "steps": "x"}',
]


@pytest.mark.parametrize("text", GARBAGE, ids=range(len(GARBAGE)))
def test_a_variable_that_tenure_did_not_set_is_passed_over(tmp_path, text):
    same(tmp_path, Odd(environment={"TENURE_RUN": text}), hows=("TENURE_TRACE",))


@pytest.mark.parametrize("amount", [0, 100, 2000])
def test_a_full_disk(tmp_path, amount):
    """The limit for the length of a file stands for it: a write fails, or writes a part."""
    odd = Odd(before=limited(resource.RLIMIT_FSIZE, 60_000))
    odd.text = odd.text.replace(
        'tenure.mark("here")',
        f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({amount}, 60_000))
try: tenure.mark("here")
finally: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
""",
    )
    same(tmp_path, odd, recorded=None, says="tenure: " if amount == 0 else "")


@pytest.mark.parametrize("room", [700, 720, 1200])
@pytest.mark.long
def test_little_room_is_left_to_the_program(tmp_path, room):
    """The address space is limited to so many MiB; torch takes some 600 of them."""
    odd = Odd(framework=TORCH, before=limited(resource.RLIMIT_AS, room << 20))
    same(tmp_path, odd, recorded=(), says="no trace: only ")


def test_where_little_room_is_left_nothing_is_recorded(tmp_path):
    odd = Odd(before=limited(resource.RLIMIT_AS, 800 << 20))
    same(tmp_path, odd, recorded=(), says="MiB of address space are left (ulimit -v), and a recording may need 1024")
