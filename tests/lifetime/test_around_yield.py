"""A scope around the `yield` of a context manager or fixture covers the code between entry and exit."""

import asyncio
import contextlib
import subprocess
import sys

import pytest

import tenure

torch = pytest.importorskip("torch")


def state(tensor):
    return tenure.info(tensor).state


@contextlib.contextmanager
def step():
    with tenure.scope("step") as scope:
        yield scope


@contextlib.contextmanager
def outer_step():
    with step() as scope:
        yield scope


@contextlib.asynccontextmanager
async def async_step():
    async with tenure.scope("step") as scope:
        yield scope


@pytest.mark.parametrize("manager", [step, outer_step])
def test_a_context_manager(manager):
    kept = []
    with manager():
        kept.append(torch.ones(3))
        with manager() as inner:
            kept.append(torch.ones(3))
            kept.append(tenure.keep(torch.ones(3)))
            assert len(inner.tensors()) == 1
        assert [state(one) for one in kept] == ["live", "disposed", "live"]
    assert [state(one) for one in kept] == ["disposed"] * 3
    assert state(torch.ones(1)) == "live"
    with contextlib.ExitStack() as stack:
        stack.enter_context(manager())
        kept.append(torch.ones(2))
    assert state(kept[-1]) == "disposed"


def delegating():
    return (yield from outer_step.__wrapped__())


def test_a_generator_that_delegates():
    kept = []
    with contextlib.contextmanager(delegating)():
        kept.append(torch.ones(3))
        assert state(kept[0]) == "live"
    assert state(kept[0]) == "disposed"


def test_a_generator_that_is_used_before_the_yield():
    """A scope in it covers its own code, although a context manager is what runs it."""

    def made():
        with tenure.scope():
            yield torch.ones(2)

    running = made()

    @contextlib.contextmanager
    def manager():
        yield next(running)

    with manager():
        outside = torch.ones(3)
    assert state(outside) == "live"


def test_in_a_generator_it_covers_the_generator_alone():
    made = []

    def numbers():
        with step():
            for _ in range(3):
                made.append(torch.ones(2))
                yield made[-1].sum().item()

    mine = []
    for number in numbers():
        mine.append(torch.full((2,), number))
    assert {state(one) for one in made} == {"disposed"}
    assert {state(one) for one in mine} == {"live"}


def test_an_async_context_manager_and_tasks_that_take_turns():
    made = {}

    async def work(name):
        async with async_step():
            made[name] = []
            for _ in range(3):
                made[name].append(torch.ones(2))
                await asyncio.sleep(0)
            if name == 1:
                await asyncio.sleep(0.01)
                assert {state(one) for one in made[2]} == {"disposed"}
            assert {state(one) for one in made[name]} == {"live"}

    async def both():
        await asyncio.gather(work(1), work(2))

    asyncio.run(both())
    assert {state(one) for one in made[1] + made[2]} == {"disposed"}


FIXTURE = """
import pytest, tenure, torch

kept = []

@pytest.fixture
def scoped():
    with tenure.scope():
        yield

def test_inside(scoped):
    kept.append(torch.ones(3))

def test_after():
    assert tenure.info(kept[0]).state == "disposed"
    kept.append(torch.ones(3))

def test_outside():
    assert tenure.info(kept[1]).state == "live"
"""


def test_a_yield_fixture_of_pytest(tmp_path):
    (tmp_path / "test_it.py").write_text(FIXTURE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert "3 passed" in done.stdout, done.stdout


ASYNC_FIXTURES = """
import pytest, tenure, torch
{imports}

@pytest.fixture
def anyio_backend():
    return "asyncio"

@{fixture}
async def scoped({arguments}):
    with tenure.scope() as scope:
        yield scope

@{mark}
async def test_it(scoped):
    x = torch.ones(3)
    print("seen", len(scoped.tensors()))
"""


@pytest.mark.parametrize(
    "plugin",
    [
        {"name": "pytest_asyncio", "fixture": "pytest_asyncio.fixture", "mark": "pytest.mark.asyncio", "arguments": ""},
        {"name": "anyio", "fixture": "pytest.fixture", "mark": "pytest.mark.anyio", "arguments": "anyio_backend"},
    ],
    ids=lambda plugin: plugin["name"],
)
def test_an_async_fixture(tmp_path, plugin):
    pytest.importorskip(plugin["name"])
    text = ASYNC_FIXTURES.format(imports=f"import {plugin['name']}", **plugin)
    (tmp_path / "test_it.py").write_text(text)
    options = ["-s", "-p", "no:cacheprovider", "-W", "error::RuntimeWarning"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_it.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "seen 1" in done.stdout
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("version", "shares"), [("0.24.0", False), ("0.25.0", True), ("1.2.0", True), ("0.25rc1", True)]
)
def test_which_versions_share_the_context_of_an_async_fixture(monkeypatch, version, shares):
    from importlib import metadata

    from tenure.lifetime import scope

    monkeypatch.setattr(metadata, "version", lambda name: version)
    assert scope._shares_context.__wrapped__("pytest-asyncio") is shares
