"""Whatever the exception, its frames and their locals: no explanation fails, runs the user's code or shows a value."""

import random
import string
import sys
import traceback
import types
import zipfile

import pytest

import tenure
from tenure.explain import driver, told
from tenure.explain.raised import from_exception
from tenure.explain.text import parse

SECRET = "sk-live-0123456789abcdef"
MESSAGES = [
    "Attempted to use a closed Session.", "The Session graph is empty. Add operations", "Array has been deleted with shape=f32[3].",
    "Trying to backward through the graph a second time", "'NoneType' object has no attribute 'grad'",
    "modified by an inplace operation: [torch.FloatTensor [3]], which is output 0 of Exp, is at version 1; expected version 0",
    "Encountered an unexpected tracer. A function transformed by JAX had a side effect", "x is out of scope and cannot be used here.",
    'in user code:\n\n    File "x.py", line 3, in f  *\n        y\n\n    TypeError: is out of scope and cannot be used here',
    'was defined here:\n  File "gone.py", line 99, in g\n', "weakly-referenced object no longer exists", "FakeTensor", "SymFloat",
    "Variable w already exists, disallowed", "Attempt to donate the same buffer twice", "unsupported operand type(s): 'NoneType'",
    "Leaked trace", "Could not read index 0 twice because it was cleared after a previous read", "setStorage: out of bounds for storage of size 0",
]  # fmt: skip


class Hostile:
    """Raises for whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError("asked for " + name)

    def _raise(self, *args, **kwargs):
        raise RuntimeError("called")

    __repr__ = __str__ = __eq__ = __bool__ = __len__ = __iter__ = __getitem__ = __call__ = __class_getitem__ = _raise
    __hash__ = None


class HostileMeta(type):
    def __getattribute__(cls, name):
        raise SystemExit("asked the class for " + name)


def hostile_class():
    """Not at the top: pytest asks the names there for things."""
    return HostileMeta("HostileClass", (), {})


class HostileDict(dict):
    def items(self):
        raise RuntimeError("items")

    __iter__ = __getitem__ = items


class HostileError(Exception):
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__

    def __getattr__(self, name):
        raise ValueError(name)


def junk(rng):
    text = "".join(rng.choice(string.printable) for _ in range(rng.randrange(60)))
    return rng.choice([text, rng.choice(MESSAGES), rng.choice(MESSAGES) + text, text * 50, "", "\x1b[31m", "é\ud800"])


def kinds():
    made = [type(name, (Exception,), {}) for name in ("UnexpectedTracerError", "TensorReleased", "InaccessibleTensorError", "JaxRuntimeError", "FailedPreconditionError", "TracerBoolConversionError", "SessionClosed", "NameTaken")]  # fmt: skip
    return [
        RuntimeError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        OSError,
        ReferenceError,
        RecursionError,
        *made,
    ]


def raise_in(rng, error, file):
    """Raise below random frames: with source, without, in exec, with hostile locals."""
    api_key, hostile, klass, mapping = SECRET, Hostile(), hostile_class(), HostileDict(a=1)
    source = rng.choice(["raise error", "def f(api_key, hostile):\n    raise error\nf(1, hostile)", "class C:\n    x = hostile\n    raise error", "(lambda: (_ for _ in ()).throw(error))()"])  # fmt: skip
    name = rng.choice(["<string>", "<ipython-input-1-ab>", "/gone/file.py", str(file), "", "<>", "\x00bad"])
    space = {"error": error, "hostile": hostile, "mapping": mapping, "password": SECRET, "klass": klass, "__name__": rng.choice(["m", None, 3])}  # fmt: skip
    if rng.random() < 0.2:
        space["__loader__"] = hostile
    exec(compile(source, name, "exec"), space)


@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_random_exceptions(seed, tmp_path, capsys):
    rng = random.Random(seed)
    file = tmp_path / "source.py"
    file.write_text("x = 1\n" * 5 + "def broken(:\n")
    some = kinds()
    for _ in range(1000):
        try:
            if rng.random() < 0.1:
                error = HostileError()
            elif rng.random() < 0.1:
                error = ExceptionGroup(junk(rng) or "g", [rng.choice(some)(junk(rng)) for _ in range(3)])
            else:
                error = rng.choice(some)(junk(rng))
            if rng.random() < 0.3:
                error.__cause__ = rng.choice(some)(junk(rng))
            if rng.random() < 0.05:
                error.__context__ = error.__cause__ or error
            raise_in(rng, error, file)
        except BaseException as caught:
            found = driver.find(from_exception(caught))  # which raises what `explain` would hide
            if found is not None:
                assert SECRET not in told.text(found)
                assert SECRET not in str(found.as_dict())
    assert capsys.readouterr().out == ""


def test_ten_thousand_random_texts():
    rng = random.Random(0)
    words = [*MESSAGES, "Traceback (most recent call last):", '  File "a.py", line 3, in f', "    x = 1", "RuntimeError: ", "    ^^^", "During handling of the above exception, another exception occurred:", "Cell In[1], line 2", "----> 3 x", "  | ", "in user code:", "-" * 20, "-" * 30, "-" * 75, "E   ", "a.py:3: in f", "File a.py:3, in f(x)"]  # fmt: skip
    for _ in range(10_000):
        text = "\n".join(rng.choice(words) for _ in range(rng.randrange(12)))
        for raised in parse(text):
            driver.find(raised)


def test_zipped_code_and_frames_without_source(tmp_path):
    archive = tmp_path / "lib.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(
            "zipped_runner.py", 'def run(sess):\n    raise RuntimeError("Attempted to use a closed Session.")\n'
        )
    sys.path.insert(0, str(archive))
    try:
        import zipped_runner

        with pytest.raises(RuntimeError) as caught:
            zipped_runner.run(None)
    finally:
        sys.path.remove(str(archive))
        sys.modules.pop("zipped_runner", None)
    finding = tenure.explain(caught.value)
    assert finding.places[-1].text == 'raise RuntimeError("Attempted to use a closed Session.")'


def test_an_exception_raised_by_native_code():
    with pytest.raises(ReferenceError) as caught:
        import weakref

        proxy = weakref.proxy(types.FunctionType((lambda: 0).__code__, {}))
        proxy()
    assert tenure.explain(caught.value) is None  # no tensor in sight


def test_deep_recursion_is_quick():
    def down(n):
        return down(n + 1)

    with pytest.raises(RecursionError) as caught:
        down(0)
    assert tenure.explain(caught.value) is None


def test_without_an_exception():
    assert tenure.explain() is None
    try:
        raise RuntimeError("Attempted to use a closed Session.")
    except RuntimeError:
        assert tenure.explain().code == "TN201"


def test_the_exception_stays_as_it_is():
    def f():
        raise RuntimeError("Attempted to use a closed Session.")

    try:
        f()
    except RuntimeError as caught:
        error = caught
    before = "".join(traceback.format_exception(error)), error.__traceback__, error.args, dict(error.__dict__)
    tenure.explain(error)
    assert ("".join(traceback.format_exception(error)), error.__traceback__, error.args, dict(error.__dict__)) == before


def test_where_the_explanation_cannot_be_printed():
    class Closed:
        def isatty(self):
            raise ValueError("I/O operation on closed file")

    assert told.below(RuntimeError("Attempted to use a closed Session."), Closed()) is None
