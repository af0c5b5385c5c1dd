"""A call that could not reuse what it was given to reuse is told with what reads that memory; no other call is."""

import inspect
import os
import warnings

import pytest

import tenure
from tenure.trace import donations

jax = pytest.importorskip("jax")
np = pytest.importorskip("numpy")

import jax.numpy as jnp  # noqa: E402

from tenure.frameworks.recording import arrays  # noqa: E402

pytestmark = pytest.mark.skipif(
    os.environ.get("TENURE_NATIVE") == "0", reason="calls are seen by the native recorder alone"
)
SHAPE = (200, 200)


def halve(x):
    return x * 0.5


def an_array():
    step = jax.jit(halve, donate_argnums=0)
    x = jnp.ones(SHAPE)
    for _ in range(4):
        before = np.asarray(x)  # reader
        x = step(x)  # call
    assert before[0, 0] == 0.125


def in_a_tree():
    @jax.jit
    def untouched(x):
        return x + 1

    step = jax.jit(lambda state, scale: {"w": state["w"] * scale, "n": state["n"] + 1}, donate_argnums=0)
    state = {"w": jnp.ones(SHAPE), "n": jnp.zeros(())}
    log = []
    for _ in range(3):
        log.append(memoryview(state["w"]))  # reader
        state = step(state, untouched(jnp.ones(())))  # call


def by_name():
    step = jax.jit(halve, donate_argnames="x")
    x = jnp.ones(SHAPE)
    part = np.asarray(x)[3:5]  # reader
    x = step(x=x)  # call
    assert part.sum() == 400


def of_another_framework():
    torch = pytest.importorskip("torch")
    step = jax.jit(halve, donate_argnums=0)
    x = jnp.ones(SHAPE)
    other = torch.from_dlpack(x)  # reader
    x = step(x)  # call
    assert other.sum() == 40_000


def is_reused():
    step = jax.jit(halve, donate_argnums=0)
    x = jnp.ones(SHAPE)
    for _ in range(4):
        x = step(x)


def is_read_before():
    step = jax.jit(halve, donate_argnums=0)
    x = jnp.ones(SHAPE)
    for _ in range(4):
        total = np.asarray(x).sum()
        x = step(x)
    assert total == 5000


def is_copied():
    step = jax.jit(halve, donate_argnums=0)
    x = jnp.ones(SHAPE)
    before = np.array(x)
    x = step(x)
    assert before.sum() == 40_000


def has_no_room():
    """Nothing that comes out is like what goes in: JAX could not reuse it anyway."""
    step = jax.jit(lambda x: x.sum(), donate_argnums=0)
    x = jnp.ones(SHAPE)
    view = np.asarray(x)
    for _ in range(4):
        step(x)
    assert view.sum() == 40_000


def is_not_given():
    step = jax.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jnp.ones(SHAPE), jnp.ones(SHAPE)
    view = np.asarray(y)
    for _ in range(4):
        x = step(x, y)
    assert view.sum() == 40_000


def is_small():
    step = jax.jit(halve, donate_argnums=0)
    x = jnp.ones(10)
    view = np.asarray(x)
    x = step(x)
    assert view.sum() == 10


def fails():
    @jax.jit
    def inner(x):
        raise ValueError("no")

    step = jax.jit(inner, donate_argnums=0)
    x = jnp.ones(SHAPE)
    view = np.asarray(x)
    with pytest.raises(ValueError, match="no"):
        step(x)
    assert view.sum() == 40_000


def found_in(work, tmp_path):
    if arrays.core("jax") is None:
        pytest.skip("the native recorder of JAX cannot be built here")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's, of what it cannot use
        with tenure.trace(tmp_path / "trace"):
            work()
    return [one for one in tenure.load(tmp_path / "trace").findings() if one.code == "TN503"]


def marked(work, word):
    lines, first = inspect.getsourcelines(work)
    return next(first + at for at, line in enumerate(lines) if line.rstrip().endswith(f"# {word}"))


@pytest.mark.parametrize(
    ("work", "calls", "reader"),
    [(an_array, 4, "before"), (in_a_tree, 3, "log[0]"), (by_name, 1, "part"), (of_another_framework, 1, "other")],
)
def test_what_reads_it_is_named(work, calls, reader, tmp_path):
    (finding,) = found_in(work, tmp_path)
    places = {place.role: place.line for place in finding.places}
    assert finding.severity == "advice"
    assert finding.main.line == places["use"] == marked(work, "call")
    assert "birth" in places
    assert finding.evidence["calls"] == calls
    assert finding.evidence["bytes"] == 160_000
    assert any(reader in one for one in finding.evidence["readers"])
    if reader != "log[0]":  # of a list the line that made it is named
        assert places["holder"] == marked(work, "reader")


@pytest.mark.parametrize(
    "work", [is_reused, is_read_before, is_copied, has_no_room, is_not_given, is_small, fails], ids=lambda work: work.__name__
)  # fmt: skip
def test_nothing_is_told_where_it(work, tmp_path):
    assert found_in(work, tmp_path) == []


def test_the_report_says_it(tmp_path, capsys):
    from tenure.cli import main

    found_in(an_array, tmp_path)
    assert main(["report", str(tmp_path / "trace")]) == 0
    out = capsys.readouterr().out
    assert "[TN503]" in out
    assert "`halve` could not reuse its donated argument (156.2 KiB) in 4 calls" in " ".join(out.split())
    assert "array before" in out


def test_what_is_damaged_is_passed_over(tmp_path):
    found_in(an_array, tmp_path)
    (file,) = (tmp_path / "trace").glob("donations-*.jsonl")
    text = file.read_text()
    file.write_text('{"framework": "jax"}\n[1]\n' + text + text[:40])
    assert len(donations.heard(tmp_path / "trace")) == 1


def test_a_function_at_an_old_ones_address_is_another(tmp_path):
    """What was offered by a function that is gone is not what a later one at its place offers."""

    def work():
        kept = []
        for turn in range(40):
            give = turn % 2 == 0
            step = jax.jit(lambda x: x * 2, donate_argnums=0 if give else ())
            x = jnp.ones(SHAPE)
            y = step(x)
            assert x.is_deleted() == give
            kept.append(None)
            del step, x, y

    assert found_in(work, tmp_path) == []
