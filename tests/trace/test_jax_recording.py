"""What a trace says of JAX's arrays."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest

import tenure
from tenure.frameworks.recording import jax as recording
from tenure.trace.recorder import Recorder

pytestmark = pytest.mark.skipif(
    isinstance(recording.source(), recording.Looking), reason="the native part cannot be built here"
)


class Trace:
    def __init__(self, folder: Path) -> None:
        self.recorder = Recorder(folder / "trace")

    def __enter__(self) -> Trace:
        self.recorder.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.recorder.stop()
        (file,) = self.recorder.folder.glob("*.arrows")
        rows = pa.ipc.open_stream(file).read_all().to_pylist()
        self.rows = rows
        births = [row for row in rows if row["event"] == "birth" and row["framework"] == "jax"]
        self.births = {row["buffer"]: row for row in births}
        self.ends = {row["buffer"]: row for row in rows if row["event"] == "end"}

    def birth(self, line: int, **wanted: object) -> dict:
        (found,) = [row for row in self.at(line) if all(row[key] == value for key, value in wanted.items())]
        return found

    def at(self, line: int) -> list[dict]:
        return [row for row in self.births.values() if (row["site"] or "").startswith(f"{__file__}:{line} ")]

    def end_of(self, birth: dict) -> dict:
        return self.ends[birth["buffer"]]


@pytest.fixture
def trace(tmp_path):
    return Trace(tmp_path)


def line() -> int:
    import sys

    return sys._getframe(1).f_lineno


@jax.jit
def double(x):
    return {"out": x * 2}


@jax.jit
def train(params, x):
    def loss(params):
        h = x
        for layer in params:
            h = jnp.tanh(h @ layer["w"] + layer["b"])
        return (h * h).mean()

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def fresh():
    rng = np.random.default_rng(0)
    return [
        {"w": jnp.asarray(rng.normal(size=(8, 8)).astype("f")), "b": jnp.asarray(np.zeros(8, "f"))} for _ in range(3)
    ]


def test_a_birth_has_its_place_and_what_it_is(trace):
    x = jnp.ones((4, 8))
    double(x)
    with trace:
        y, here = double(x), line()
        z, there = jax.device_put(np.ones((2, 3), "i4")), line()
    birth = trace.birth(here)
    assert (birth["bytes"], birth["shape"], birth["dtype"], birth["op"]) == (128, "[4, 8]", "float32", "double")
    assert birth["device"] == str(jax.devices()[0])
    assert birth["thread"] == threading.current_thread().name
    assert trace.birth(there, shape="[2, 3]", dtype="int32")["kind"] == "input"
    assert birth["buffer"] not in trace.ends
    del y, z


def test_an_array_that_was_there_before_is_told_with_its_place(trace):
    x, here = jnp.ones((5, 7)), line()
    with trace:
        pass
    assert trace.birth(here, shape="[5, 7]")["bytes"] == 140
    del x


def test_the_first_call_of_a_function_is_seen_like_the_others(trace):
    with trace:
        x = jnp.ones((3, 3))
        fresh = jax.jit(lambda x: x + 1)
        results, here = [fresh(x) for _ in range(3)], line()
    assert [row["bytes"] for row in trace.at(here) if row["op"] == "<lambda>"] == [36, 36, 36]
    del results


def test_ends(trace):
    x = jnp.ones((4, 4))
    give = jax.jit(lambda x: x + 1, donate_argnums=0)
    give(jnp.ones((4, 4)))
    with trace:
        a, at_a = double(x)["out"], line()
        del a
        del_a = line() - 1
        b, at_b = double(x)["out"], line()
        b.delete()
        delete_b = line() - 1
        c, at_c = double(x)["out"], line()
        d, at_d = give(c), line()
    found = [trace.end_of(trace.birth(at)) for at in (at_a, at_b, at_c)]
    assert [end["cause"] for end in found] == ["last reference", "delete", "donate"]
    assert [end["site"].split(" in ")[0] for end in found] == [f"{__file__}:{at}" for at in (del_a, delete_b, at_d)]
    assert trace.birth(at_d)["buffer"] not in trace.ends
    assert c.is_deleted()
    del b, d


def test_what_a_compiled_call_takes_is_used(trace):
    params, x = fresh(), jnp.ones((2, 8))
    train(params, x)
    with trace:
        y, at_y = double(x)["out"], line()
        train(params, y)
        train(params, x=y)
        at_use = line() - 1
        del y
    end = trace.end_of(trace.birth(at_y))
    assert (end["uses"], end["last_op"]) == (2, "train")
    assert end["last_site"].split(" in ")[0] == f"{__file__}:{at_use}"


def test_a_registered_container_and_a_typed_key(trace):
    @jax.tree_util.register_pytree_node_class
    class Box:
        def __init__(self, x):
            self.x = x

        def tree_flatten(self):
            return (self.x,), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    x = jnp.ones(6)
    unbox = jax.jit(lambda box: box.x + 1)
    with trace:
        y, here = double(x)["out"], line()
        unbox(Box(y))
        key, there = jax.random.key(1), line()
        jax.random.normal(key, (2,))
        del y, key
    assert trace.end_of(trace.birth(here))["last_op"] == "<lambda>"
    (key,) = [row for row in trace.at(there) if row["dtype"] == "uint32"]
    assert trace.end_of(key)["uses"] == 1


def test_reading_on_the_host_makes_no_new_buffer(trace):
    x = jnp.ones((32, 32))
    with trace:
        y = double(x)["out"]
        np.asarray(y)
        y.block_until_ready()
        z = jax.device_put(y, jax.devices()[0])
        double(z)
        y.unsafe_buffer_pointer()
        del y
        z.delete()
    large = [row for row in trace.births.values() if row["bytes"] == 4096 and row["op"] == "double"]
    assert len(large) == 2
    assert not [row for row in trace.births.values() if row["bytes"] == 4096 and row["kind"] == "input"]
    assert trace.end_of(large[0])["cause"] == "delete"


def test_steps_of_a_plain_loop(trace):
    params = fresh()
    with trace:
        for _ in range(6):
            x = jnp.asarray(np.ones((2, 8), "f"))
            (params, value), here = train(params, x), line()
            float(value)
    assert trace.recorder.step == 6
    steps = [row["step"] for row in trace.at(here) if row["shape"] == "[]"]
    assert steps == [0, 1, 2, 3, 4, 5]


def test_steps_with_several_calls_a_turn(trace):
    grad = jax.jit(jax.grad(lambda p, x: ((x @ p) ** 2).mean()))
    update = jax.jit(lambda p, m, g: (p - 0.1 * m, 0.9 * m + g))
    p, m, x = jnp.ones((16, 16)), jnp.zeros((16, 16)), jnp.ones((2, 16))
    key, total = jax.random.key(0), jnp.zeros(())
    with trace:
        for _ in range(7):
            key, noise = jax.random.split(key)
            g = grad(p, x + jax.random.normal(noise, x.shape))
            g = grad(p, x) + g
            p, m = update(p, m, g)
            total = total + g.sum()
    assert trace.recorder.step == 7


def test_steps_of_an_eager_update_over_many_leaves(trace):
    params = [jnp.ones((4, 4)) for _ in range(5)]
    with trace:
        for _ in range(4):
            params = jax.tree.map(lambda p: p * 0.9, params)
    assert trace.recorder.step == 4


def test_what_recurs_without_carrying_anything_is_no_step(trace):
    with trace:
        rows = [jnp.ones((4, i)) for i in range(1, 9)]
        for row in rows:
            double(row)
    assert trace.recorder.step == 0


def test_a_loop_that_follows_another_goes_on_counting():
    turns = recording.Turns()
    done = [turns.turned(1, 100, turn) for turn in (1, 2, 3)]
    assert done == [(1, True), (0, True), (0, True)]
    assert turns.turned(2, 10, 1) == (0, False)
    assert turns.turned(1, 100, 4) == (0, True)
    assert [turns.turned(2, 10, turn) for turn in (2, 3)] == [(0, False), (0, False)]
    assert turns.turned(2, 10, 4) == (3, True)
    assert turns.turned(3, 1000, 1) == (0, False)
    assert turns.turned(3, 1000, 2) == (0, True)


def run(steps: int = 20):
    params, values = fresh(), []
    for _ in range(steps):
        params, value = train(params, jnp.ones((2, 8)))
        values.append(float(value))
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(params)], values


def test_results_are_the_same_to_the_bit(trace):
    before = run()
    with trace:
        within = run()
    assert before == within == run()


def test_nothing_is_kept_alive(trace):
    x = jnp.ones((4, 4))
    with trace:
        y = double(x)["out"]
        ref = weakref.ref(y)
        del y
        assert ref() is None
        z = double(x)["out"]
        trace.recorder.flush()
        ref = weakref.ref(z)
        del z
        assert ref() is None


def test_an_error_in_a_compiled_function_is_the_users(trace):
    @jax.jit
    def wrong(x):
        raise KeyError("mine")

    with trace, pytest.raises(KeyError, match="mine"):
        wrong(jnp.ones(2))


def test_threads(trace):
    x = jnp.ones((4, 4))

    written, done = threading.Event(), threading.Barrier(5)

    def work():
        for _ in range(50):
            double(x)
        done.wait()
        written.wait()

    with trace:
        workers = [threading.Thread(target=work, name=f"worker {i}") for i in range(4)]
        for worker in workers:
            worker.start()
        done.wait()
        trace.recorder.flush()  # the names of threads are known while they live
        written.set()
        for worker in workers:
            worker.join()
    born = [row for row in trace.births.values() if row["op"] == "double"]
    assert len(born) == 200
    assert {row["thread"] for row in born} == {f"worker {i}" for i in range(4)}
    assert all(row["buffer"] in trace.ends for row in born)


def test_stop_restores_everything(trace):
    pjit, delete, x = recording._extension.pjit, recording.Array.delete, jnp.ones(3)
    function = jax.jit(lambda x: x + 1)
    with trace:
        assert recording._extension.pjit is not pjit
        late = jax.jit(lambda x: x - 1)
        function(x), late(x)
        core = trace.recorder._sources["jax"].core
        # What is in the trace's hands already cannot be taken a second time.
        assert not core.enrol(function)
        assert not core.enrol(late)
    assert (recording._extension.pjit, recording.Array.delete) == (pjit, delete)
    for one in (function, late):
        assert core.enrol(one)
        core.release(one)
    function(x), late(x)
    assert core.read() == (0, 0)


@pytest.mark.parametrize("native", ["1", "0"])
def test_jax_is_not_begun_by_looking_at_it(tmp_path, native):
    """Its settings are still open to the program when it is imported, as they are without a trace."""
    code = """if True:
        import os, jax
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
        print(len(jax.devices()))"""
    environment = {
        **os.environ,
        "TENURE_TRACE": str(tmp_path / "trace"),
        "TENURE_NATIVE": native,
        "JAX_PLATFORMS": "cpu",
    }
    environment.pop("XLA_FLAGS", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


def test_a_second_trace_begins_anew(tmp_path):
    kept = []
    x = jnp.ones(5)
    for turn in range(3):
        with Trace(tmp_path / str(turn)) as trace:
            kept.append(double(x)["out"])
            here = line() - 1
        assert len([row for row in trace.at(here) if row["shape"] == "[5]" and row["step"] == 0]) == turn + 1
        assert len({row["buffer"] for row in trace.births.values()}) == len(trace.births)


def test_scopes_and_traces_in_any_order(tmp_path):
    import tenure

    x = jnp.ones((4, 4))
    with tenure.scope("outer"), Trace(tmp_path / "a"):
        double(x)
    for turn in range(2):
        with tenure.scope("alone"):
            double(x)
        with Trace(tmp_path / f"b{turn}") as trace, tenure.scope("inner"):
            y = double(x)["out"]
            here = line() - 1
        birth = trace.birth(here)
        assert (birth["scope"], trace.end_of(birth)["cause"]) == ("inner", "scope exit")
        assert y.is_deleted()
        gc.collect()
    first = Trace(tmp_path / "c")
    with tenure.scope("first"):
        first.__enter__()
    with tenure.scope("second"):
        double(x)
    double(x)
    with tenure.scope("third"):
        double(x)
    first.__exit__()
    assert len([row for row in first.births.values() if row["op"] == "double"]) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:This process:DeprecationWarning")
def test_a_child_has_a_trace_of_its_own(trace):
    x = jnp.ones((4, 4))
    with trace:
        kept, here = double(x)["out"], line()
        child = os.fork()
        if not child:
            del kept  # no computation: JAX's threads did not come along
            trace.recorder.stop()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        told = ends_of(trace.recorder.folder, child)
        assert told == []
    assert trace.birth(here)["buffer"] not in trace.ends


def ends_of(folder: Path, child: int) -> list[dict]:
    """The ends in a child's stream, which goes: what the child did not make, it does not end."""
    found = []
    for file in folder.glob(f"*{child}*.arrows"):
        found += [row for row in pa.ipc.open_stream(file).read_all().to_pylist() if row["event"] == "end"]
        file.unlink()
    return found


def test_without_the_native_part_the_living_are_seen(tmp_path):
    told: list[tuple] = []

    class Sink:
        def born(self, framework, nbytes, device, op="", shape=None, dtype="", stack=0, kind="", time=0):
            told.append(("born", nbytes, shape, dtype, stack))
            return len(told)

        def ended(self, buffer, cause="last reference", stack=0, time=0):
            told.append(("ended", buffer, cause))

        def partly(self, results, why):
            told.append(("partly", results, why))

    looking = recording.Looking()
    looking.start(Sink())
    told.clear()
    x, here = jnp.ones((3, 5)), line()
    y = jnp.ones((3, 5)) * 2
    looking.drain()
    born = [one for one in told if one[0] == "born" and one[1:4] == (60, (3, 5), "float32")]
    assert len(born) == 2
    assert any(one[4].startswith(f"{__file__}:{here} ") for one in born)
    del x
    y.delete()
    looking.drain()
    assert [one[2] for one in told if one[0] == "ended"] == ["last reference", "delete"]
    looking.stop()
    assert told[-1][:2] == ("partly", ("peak",))


def test_what_tenure_makes_inside_a_call_is_not_its_result(trace):
    """A leak check may run in the middle of a call, and JAX makes a second array of the same bytes when it is read."""
    arrays = [jax.device_put(np.ones((3, 5), "f4")) for _ in range(4)] + [jnp.ones((3, 5)) * 2]

    def looks(x):
        tenure.info(arrays[0]), tenure.holders(arrays), tenure.memory()
        return x + 1

    with trace:
        result, here = jax.jit(looks)(jnp.ones(7)), line()
    assert [row["bytes"] for row in trace.at(here) if row["op"] == "looks"] == [28]
    del result


SEVERAL = """if True:
    import os
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    import jax, jax.numpy as jnp, numpy
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    halves = NamedSharding(Mesh(numpy.array(jax.devices()), ("d",)), PartitionSpec("d"))
    def make():
        return jax.device_put(numpy.ones((64, 64), "f4"), halves)
    before = make()
    before.addressable_shards
    with tenure.trace(sys.argv[1]):
        after = make()
        both = jax.jit(lambda x: (x + 1, x + 2))(after)
        for array in (before, after, *both):
            repr(array), array.addressable_shards, array.addressable_data(0), tenure.info(array), tenure.memory()
            float(array.sum())
    """


def test_parts_of_an_array_on_several_devices_are_counted_with_it(tmp_path):
    code = f"import sys, tenure\n{SEVERAL}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    folder = tmp_path / "trace"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.arrows")
    rows = pa.ipc.open_stream(file).read_all().to_pylist()
    ended = {row["buffer"] for row in rows if row["event"] == "end"}
    alive = [row["bytes"] for row in rows if row["event"] == "birth" and row["buffer"] not in ended]
    assert sorted(size for size in alive if size >= 1024) == [64 * 64 * 4] * 4
