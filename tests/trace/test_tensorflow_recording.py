"""What a trace says of TensorFlow's tensors and variables."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import backprop, context, execute
from tensorflow.python.framework import constant_op
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from tenure.frameworks.recording import tensorflow, tensorflow_hooks, tensorflow_python
from tenure.trace.recorder import Recorder


class Trace:
    is_native = True
    is_troubled = False  # whether the recorder is expected to say that something went wrong in it

    def __init__(self, folder: Path) -> None:
        self.recorder = Recorder(folder / "trace")

    def __enter__(self) -> Trace:
        self.recorder.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.recorder.stop()
        (file,) = self.recorder.folder.glob("*.arrows")
        self.rows = pa.ipc.open_stream(file).read_all().to_pylist()
        troubles = [row["name"] for row in self.rows if (row["name"] or "").startswith("trouble")]
        assert bool(troubles) == self.is_troubled, troubles
        births = [row for row in self.rows if row["event"] == "birth" and row["framework"] == "tensorflow"]
        self.births = {row["buffer"]: row for row in births}
        self.ends = {row["buffer"]: row for row in self.rows if row["event"] == "end"}

    def at(self, line: int) -> list[dict]:
        return [row for row in self.births.values() if (row["site"] or "").startswith(f"{__file__}:{line} ")]

    def birth(self, line: int, **wanted: object) -> dict:
        (found,) = [row for row in self.at(line) if all(row[key] == value for key, value in wanted.items())]
        return found

    def end_of(self, birth: dict) -> dict:
        return self.ends[birth["buffer"]]


@pytest.fixture(params=["native", "python"])
def trace(request, tmp_path, monkeypatch):
    """Of either recorder."""
    if request.param == "python":
        monkeypatch.setenv("TENURE_NATIVE", "0")
    elif not tensorflow.source().native:
        pytest.skip("the native recorder cannot be built here")
    made = Trace(tmp_path)
    made.is_native = request.param == "native"
    return made


def line() -> int:
    return sys._getframe(1).f_lineno


def mlp():
    tf.keras.utils.set_random_seed(0)
    return tf.keras.Sequential([tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(2)])


def test_births_have_their_place_and_what_they_are(trace):
    with trace:
        a, at_a = tf.constant([[1.0, 2.0]]), line()
        b, at_b = tf.constant(np.ones((3, 4), "i4")), line()
        c, at_c = tf.random.normal((5, 6)), line()
        v, at_v = tf.Variable(tf.zeros((7, 2))), line()
        w, at_w = tf.Variable(tf.zeros((7, 3)), trainable=False), line()
    told = ("bytes", "shape", "dtype", "op", "kind", "device")
    assert [trace.birth(at_a, kind="constant")[key] for key in told] == [
        8, "[1, 2]", "float32", None, "constant", "CPU:0",
    ]  # fmt: skip
    assert [trace.birth(at_b)[key] for key in told] == [48, "[3, 4]", "int32", None, "input", "CPU:0"]
    (normal,) = [row for row in trace.at(at_c) if row["buffer"] not in trace.ends]
    assert (normal["bytes"], normal["shape"]) == (120, "[5, 6]")
    assert trace.birth(at_v, op="VarHandleOp")["kind"] == "parameter"
    assert trace.birth(at_w, op="VarHandleOp")["kind"] is None
    assert trace.birth(at_v, op="VarHandleOp")["bytes"] == 56
    del a, b, c, v, w


def test_ends_and_uses(trace):
    x = tf.random.normal((4, 4))
    with trace:
        a, at_a = tf.matmul(x, x), line()
        b, at_b = tf.add(a, a), line()
        del a
        at_del = line() - 1
        v, at_v = tf.Variable(x), line()
        v.assign_add(x)
        at_assign = line() - 1
        del v
    end = trace.end_of(trace.birth(at_a))
    assert (end["cause"], end["uses"], end["last_op"]) == ("last reference", 2, "AddV2")
    assert end["site"].split(" in ")[0] == f"{__file__}:{at_del}"
    assert end["last_site"].split(" in ")[0] == f"{__file__}:{at_b}"
    assert trace.birth(at_b)["buffer"] not in trace.ends
    end = trace.end_of(trace.birth(at_v, kind="parameter"))
    assert (end["last_op"], end["last_site"].split(" in ")[0]) == ("AssignAddVariableOp", f"{__file__}:{at_assign}")


def test_handles_that_share_a_buffer_count_once(trace):
    x = tf.random.normal((4, 4))
    with trace:
        a, at_a = x + 1.0, line()
        b, at_b = tf.reshape(a, (16,)), line()
        c, at_c = tf.identity(b), line()
        v, at_v = tf.Variable(x), line()
        read, at_read = v.value(), line()
        del a, b
        c.numpy()
        del c
        at_del = line() - 1
        del v, read
    assert not [row for at in (at_b, at_c, at_read) for row in trace.at(at) if row["bytes"] == 64]
    assert trace.end_of(trace.birth(at_a, op="AddV2"))["site"].split(" in ")[0] == f"{__file__}:{at_del}"
    assert trace.end_of(trace.birth(at_v, kind="parameter"))["last_op"] == "ReadVariableOp"


def test_a_function_gives_its_results_and_no_more(trace):
    @tf.function
    def work(x):
        for _ in range(5):
            x = tf.tanh(x) + 1.0
        return x, tf.reduce_sum(x)

    x = tf.ones((3, 3))
    with trace:
        found, here = [work(x) for _ in range(3)], line()
    assert [row["op"] for row in trace.at(here) if row["shape"] == "[3, 3]"] == ["work"] * 3
    assert [row["op"] for row in trace.at(here) if row["shape"] == "[]" and row["kind"] is None] == ["work"] * 3
    before = next(row for row in trace.births.values() if row["shape"] == "[3, 3]" and row["op"] is None)
    assert [row["uses"] for row in trace.rows if row["buffer"] == before["buffer"] and row["event"] == "use"][-1] == 3


def test_a_tensor_that_was_there_before_is_known(trace):
    x = tf.random.normal((11, 3))
    v = tf.Variable(x)
    with trace:
        y = x * 2.0
        del x
    (old,) = [row for row in trace.births.values() if row["shape"] == "[11, 3]" and row["op"] is None]
    assert trace.end_of(old)["uses"] == 1
    assert [row for row in trace.births.values() if row["shape"] == "[11, 3]" and row["kind"] == "parameter"]
    del y, v


def test_steps_of_a_loop_with_a_tape(trace):
    model, optimizer, x = mlp(), tf.keras.optimizers.Adam(), tf.ones((4, 3))
    with trace:
        for _ in range(5):
            with tf.GradientTape() as tape:
                value, here = tf.reduce_mean(model(x) ** 2), line()
            grads, at_grads = tape.gradient(value, model.trainable_variables), line()
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    assert trace.recorder.step == 5
    assert [row["step"] for row in trace.at(here) if row["op"] == "Mean"] == [0, 1, 2, 3, 4]
    gradients = {row["buffer"] for row in trace.rows if row["event"] == "kind" and row["kind"] == "gradient"}
    assert len(gradients) == 20
    assert gradients <= {row["buffer"] for row in trace.at(at_grads)}
    states = [row for row in trace.births.values() if row["kind"] == "optimizer state"]
    assert sorted(row["bytes"] for row in states if row["dtype"] == "float32" and row["shape"] != "[]") == sorted(
        2 * [96, 32, 64, 8]
    )


def test_steps_of_a_compiled_loop(trace):
    model, optimizer, x = mlp(), tf.keras.optimizers.SGD(), tf.ones((4, 3))
    model.build((4, 3))
    optimizer.build(model.trainable_variables)

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(model(x) ** 2)
        grads = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return value

    with trace:
        for _ in range(4):
            train()
    assert trace.recorder.step == 4


def test_two_optimizers_in_a_turn_are_one_step(trace):
    variables = [tf.Variable(1.0), tf.Variable(2.0)]
    optimizers = [tf.keras.optimizers.SGD(), tf.keras.optimizers.SGD()]
    with trace:
        for _ in range(5):
            for optimizer, variable in zip(optimizers, variables, strict=True):
                optimizer.apply_gradients([(tf.constant(1.0), variable)])
    assert trace.recorder.step == 5


@pytest.mark.parametrize("eagerly", [False, True])
def test_steps_of_fit(trace, eagerly):
    model = mlp()
    model.compile(optimizer="sgd", loss="mse", run_eagerly=eagerly)
    with trace:
        model.fit(np.ones((12, 3), "f"), np.ones((12, 2), "f"), batch_size=4, verbose=0)
        assert trace.recorder.step == 3
        model.train_on_batch(np.ones((4, 3), "f"), np.ones((4, 2), "f"))
    assert trace.recorder.step == 4


def run(compiled: bool):
    model, optimizer = mlp(), tf.keras.optimizers.Adam()
    x = tf.constant(np.random.default_rng(0).normal(size=(4, 3)).astype("f"))
    model.build((4, 3))
    optimizer.build(model.trainable_variables)

    def train():
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(model(x) ** 2)
        grads = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return value

    step = tf.function(train) if compiled else train
    values = [step().numpy().tobytes() for _ in range(20)]
    return values, [variable.numpy().tobytes() for variable in model.trainable_variables]


@pytest.mark.parametrize("compiled", [False, True])
def test_results_are_the_same_to_the_bit(trace, compiled):
    before = run(compiled)
    with trace:
        within = run(compiled)
    assert before == within


def test_nothing_is_kept_alive(trace):
    x = tf.random.normal((4, 4))
    with trace:
        y = x * 2.0
        refs = [weakref.ref(y)]
        del y
        z = tf.identity(tf.constant([1.0, 2.0]))
        trace.recorder.flush()
        refs.append(weakref.ref(z))
        del z
        v = tf.Variable(x)
        refs.append(weakref.ref(v.handle))
        refs.append(weakref.ref(v))
        del v
        assert [ref() for ref in refs] == [None] * 4


def test_an_error_in_an_operation_is_the_users(trace):
    with trace, pytest.raises(tf.errors.InvalidArgumentError):
        tf.matmul(tf.ones((2, 3)), tf.ones((2, 3)))


def test_no_frame_of_ours_is_in_what_fails(trace):
    if not trace.is_native:
        pytest.skip("a function in Python around another has a frame")
    model = mlp()

    def fail(call):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - of whatever kind
            call()
        return [str(entry.path) for entry in caught.traceback if "/tenure/" in str(entry.path)]

    with tf.GradientTape() as tape:
        failing = [
            lambda: tf.constant(object()),
            lambda: tf.Variable(object()),
            lambda: tape.gradient(tf.constant(1.0), "no source"),
            lambda: model.fit("no data"),
            lambda: tf.keras.optimizers.SGD().apply_gradients([("no gradient", "no variable")]),
            lambda: tf.matmul(tf.ones((2, 3)), tf.ones((2, 3))),
        ]
        before = [fail(call) for call in failing]  # some, where a variable was disposed of: in what tells of that
        with trace:
            assert [fail(call) for call in failing] == before


def test_a_failing_recorder_does_not_fail_the_user(trace, monkeypatch):
    trace.is_troubled = True
    x = tf.ones(3)
    with trace:
        for module in (tensorflow, tensorflow_python):
            monkeypatch.setattr(module, "describe", None)
        assert (tf.reshape(x, (1, 1, 3)) + 1.0).numpy().tolist() == [[[2.0, 2.0, 2.0]]]
        assert tf.constant([[[1.0], [2.0]]]).shape == (1, 2, 1)
        assert tf.Variable([[[1.0]]]).shape == (1, 1, 1)


def test_a_variable_whose_making_failed_is_passed_by(trace):
    with pytest.raises((TypeError, ValueError)) as caught:
        tf.Variable(object())  # which this exception's traceback still holds
    with trace:
        x = tf.ones((3, 5))
        place = line() - 1
        del x
    assert caught.tb is not None
    assert trace.birth(place, bytes=60)["op"] == "Fill"


def test_threads_that_start_later_are_seen(trace):
    x = tf.random.normal((4, 4))
    places = []

    def work():
        y = tf.matmul(x, x)
        places.append(line() - 1)
        del y

    with trace:
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    assert trace.birth(places[0])["op"] == "MatMul"


def test_stop_restores_everything(trace):
    from keras.src.callbacks.callback_list import CallbackList
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    def state():
        common = [
            constant_op.convert_to_eager_tensor,
            BaseResourceVariable.__init__,
            backprop.GradientTape.gradient,
            tf.keras.Model.fit,
            tf.keras.Model.train_on_batch,
            CallbackList.on_train_batch_end,
            BaseOptimizer.apply,
            BaseOptimizer.add_variable,
        ]
        if trace.is_native:
            return [
                *common,
                pywrap_tfe.TFE_Py_FastPathExecute,
                pywrap_tfe.TFE_Py_Execute,
                pywrap_tfe.TFE_Py_ExecuteCancelable,
            ]
        return [
            *common,
            execute.execute_with_cancellation,
            threading.Thread._bootstrap_inner,
            list(context.context().op_callbacks),
        ]

    before, executing = state(), execute.execute
    running, go = threading.Event(), threading.Event()
    callbacks: list[list] = []

    def wait():
        callbacks.append(context.context().op_callbacks)
        running.set()
        go.wait()

    with trace:
        worker = threading.Thread(target=wait)
        worker.start()
        running.wait()
        assert len(callbacks[0]) == (0 if trace.is_native else 1)
        within = state()
    assert state() == before
    assert execute.execute is executing
    assert not any(now == then for now, then in zip(within, before, strict=True))
    assert callbacks == [[]]
    go.set()
    worker.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:This process:DeprecationWarning")
def test_a_child_has_a_trace_of_its_own(trace):
    with trace:
        kept = tf.constant([1.0, 2.0])
        child = os.fork()
        if not child:
            del kept
            trace.recorder.stop()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for file in trace.recorder.folder.glob(f"*{child}*.arrows"):
            assert not [row for row in pa.ipc.open_stream(file).read_all().to_pylist() if row["event"] == "end"]
            file.unlink()


def test_of_two_clocks_the_first_counts_until_it_stops():
    clock = tensorflow_hooks.Clock()
    assert [clock.tick(name) for name in "abababbbbb"] == [1, 0, 1, 0, 1, 0, 0, 3, 1, 1]
