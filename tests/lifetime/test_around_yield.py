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
