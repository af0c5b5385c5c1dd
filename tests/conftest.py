"""What every test needs: the frameworks that must be there, closed scopes, and children for what could crash."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

FRAMEWORKS = ("torch", "jax", "tensorflow", "numpy")

# Workers of pytest-xdist have the size of a terminal that is not there. Texts are compared at the width without a terminal.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# A shell starts what runs in its background with SIGINT ignored, and children inherit that. Tests interrupt their children.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def named() -> tuple[str, ...]:
    """The frameworks that TENURE_TEST_FRAMEWORKS asks for; without it, all: none is left out unnoticed."""
    text = os.environ.get("TENURE_TEST_FRAMEWORKS")
    if text is None:
        return FRAMEWORKS
    return tuple(name.strip() for name in text.split(",") if name.strip())


def pytest_configure(config):
    unknown = [name for name in named() if name not in FRAMEWORKS]
    if unknown:
        raise pytest.UsageError(f"TENURE_TEST_FRAMEWORKS names {unknown}; known are {', '.join(FRAMEWORKS)}")
    missing = [name for name in named() if importlib.util.find_spec(name) is None]
    if missing:
        raise pytest.UsageError(
            f"not installed, but required by the tests: {', '.join(missing)}; "
            "say in TENURE_TEST_FRAMEWORKS which frameworks must be there"
        )


# Each process takes one file after the other (`--dist loadfile`, so that what the tests of a file share is made once).
# Searches through the heap come while it is small; then what takes long, so that none is left alone with it at the end.
FIRST = (
    "analysis/test_holders.py", "frameworks/test_conformance.py", "sharing/test_ray.py", "trace/test_same_results.py",
    "docs/test_page_programs.py", "analysis/test_holders_corpus.py", "watch/test_leaks.py",
    "soak/test_torch_machine.py", "analysis/test_cluster.py",
)  # fmt: skip
LIGHT_TO_HEAVY = ("numpy", "torch", "jax", "tensorflow")


def pytest_collection_modifyitems(items):
    """Files in that order; in a file, one framework after the other, each before a heavier one is loaded."""
    here = Path(__file__).parent
    files = dict.fromkeys([*(here / name for name in FIRST), *(item.path for item in items)])
    rank = {path: at for at, path in enumerate(files)}

    def framework(item):
        named = getattr(item, "callspec", None) and item.callspec.params.get("framework")
        return LIGHT_TO_HEAVY.index(named) if named else -1

    items.sort(key=lambda item: (rank[item.path], framework(item)))


def pytest_generate_tests(metafunc):
    """A test that takes `framework` runs once for each."""
    if "framework" in metafunc.fixturenames:
        metafunc.parametrize("framework", named())


@pytest.fixture(autouse=True)
def no_scope_is_left_open():
    from tenure.lifetime import regions

    yield
    left = [region.name for region in regions.opened()]
    for region in regions.opened():
        regions.leave(region)  # so that only the guilty test fails
    assert left == [], f"the test left scopes open: {left}"


def _module(name: str):
    if name not in named():
        pytest.skip(f"{name} is not among TENURE_TEST_FRAMEWORKS")
    return importlib.import_module(name)


@pytest.fixture
def torch():
    return _module("torch")


@pytest.fixture
def jax():
    return _module("jax")


@pytest.fixture
def tf():
    return _module("tensorflow")


@pytest.fixture
def np():
    return _module("numpy")


# ------------------------------------------------------------------------------------------------ children
# What could crash runs in children. A test file has `CASES = {group: {name: function}}`; this file, run as a program,
# runs the functions of a group in a forked child, takes another one after a crash, and tells what became of each.


@pytest.fixture(scope="session")
def outcomes():
    """`outcomes(__file__, group)[name]`: what became of that function, run in a child."""

    @functools.cache
    def run(file: str, group: str) -> dict[str, dict[str, object]]:
        program = [sys.executable, "-W", "ignore", __file__, file, group]
        done = subprocess.run(program, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


def _outcome(case) -> dict[str, object]:
    import tenure

    try:
        value = case()
    except BaseException as error:
        innermost = traceback.extract_tb(error.__traceback__)[-1]
        return {
            "kind": "error",
            "type": type(error).__name__,
            "ours": isinstance(error, tenure.TenureError),
            "text": str(error),
            "inside": innermost.filename.startswith(str(Path(tenure.__file__).parent)),
            "at": f"{innermost.filename}:{innermost.lineno}",
        }
    return {"kind": "value", "text": str(value)}


def _forked(cases) -> list[dict[str, object]]:
    """Run the cases in one child; what it had told when it ended, and if it crashed, that."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        with os.fdopen(writer, "w") as pipe:
            for case in cases:
                signal.alarm(60)
                pipe.write(json.dumps(_outcome(case)) + "\n")
                pipe.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = [json.loads(line) for line in pipe]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return told if code == 0 else [*told, {"kind": "crash", "text": f"exit status {code}"}]


def _main(file: str, group: str) -> None:
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    prepare = getattr(module, "PREPARE", {}).get(group)
    if prepare is not None:
        prepare()
    gc.collect()
    gc.freeze()  # tenure's walks over the heap then see what the cases made, not the frameworks' half million objects
    names, cases = zip(*module.CASES[group].items(), strict=True)
    told: list[dict[str, object]] = []
    while len(told) < len(cases):  # after a crash the rest goes on in another child
        told += _forked(cases[len(told) :])
    print(json.dumps(dict(zip(names, told, strict=True))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
