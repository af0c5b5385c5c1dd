"""Shared variables: one name, one object, in every framework; who creates, who reuses, and what the errors say."""

import asyncio
import contextlib
import inspect
import subprocess
import sys
import textwrap
import threading

import pytest

import tenure

MAKERS = ("torch", "jax", "tensorflow")


@pytest.fixture(params=MAKERS)
def maker(request):
    """The name of a framework with variables, imported."""
    return request.getfixturevalue({"tensorflow": "tf"}.get(request.param, request.param)).__name__


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    """One of each kind of store that needs no cluster."""
    return tenure.Store("memory:" if request.param == "memory" else f"file:{tmp_path / 'store'}")


def values(variable):
    """What a variable holds, as lists."""
    if hasattr(variable, "detach"):
        return variable.detach().tolist()
    return variable.numpy().tolist() if hasattr(variable, "numpy") else variable.tolist()


def line(back=1):
    return inspect.currentframe().f_back.f_lineno - back


def test_two_functions_that_ask_for_one_name_hold_one_object(maker, store):
    def encoder():
        with tenure.variable_scope("encoder", store=store):
            return tenure.variable("w", (2, 3), "ones", framework=maker)

    def decoder():
        with tenure.variable_scope("encoder", reuse=True, store=store):
            return tenure.variable("w")

    made = encoder()
    assert decoder() is made
    assert values(made) == [[1.0] * 3] * 2
    assert "encoder/w" in store
    assert values(store["encoder/w"]) == values(made)


def test_it_is_the_frameworks_own_variable(maker):
    store = tenure.Store("memory:")
    with tenure.variable_scope("kind", store=store):
        made = tenure.variable("w", (2,), framework=maker)
        still = tenure.variable("still", (2,), framework=maker, trainable=False)
    if maker == "torch":
        import torch

        assert type(made) is torch.nn.Parameter
        assert made.requires_grad
        assert type(still) is torch.Tensor
        assert not still.requires_grad
    elif maker == "tensorflow":
        import tensorflow as tf

        assert isinstance(made, tf.Variable)
        assert (made.trainable, still.trainable) == (True, False)
        assert made.name == "kind/w:0"
    else:
        import jax

        assert isinstance(made, jax.Array)
    with tenure.variable_scope("kind", reuse=True, store=store):
        assert tenure.variable("still") is still  # whether it is trained was said when it was made


def test_created_reused_or_either(maker, store):
    with tenure.variable_scope("s", store=store):
        first = tenure.variable("w", (2,), 3.0, framework=maker)
        with pytest.raises(tenure.NameTaken):
            tenure.variable("w", (2,), framework=maker)
    with tenure.variable_scope("s", reuse=True, store=store):
        assert tenure.variable("w", (2,)) is first
        with pytest.raises(tenure.NameMissing):
            tenure.variable("v", (2,), framework=maker)
    with tenure.variable_scope("s", reuse="auto", store=store):
        assert tenure.variable("w") is first
        other = tenure.variable("v", (2,), framework=maker)
        assert tenure.variable("v") is other
    assert sorted(store) == ["s/v", "s/w"]


@pytest.mark.parametrize(
    ("outer", "inner", "works"),
    [
        (None, None, "creates"), (None, False, "creates"), (None, True, "reuses"), (None, "auto", "either"),
        (True, None, "reuses"), (True, False, "reuses"), (True, True, "reuses"), (True, "auto", "either"),
        ("auto", None, "either"), ("auto", False, "either"), ("auto", True, "reuses"), ("auto", "auto", "either"),
    ],
)  # fmt: skip
def test_reuse_is_inherited_as_in_tensorflow(torch, outer, inner, works):
    store = tenure.Store("memory:")
    with tenure.variable_scope("a", store=store), tenure.variable_scope("b"):
        old = tenure.variable("old", (1,), framework="torch")
    with tenure.variable_scope("a", outer, store=store), tenure.variable_scope("b", inner):
        if works == "creates":
            with pytest.raises(tenure.NameTaken):
                tenure.variable("old", framework="torch")
        else:
            assert tenure.variable("old") is old
        if works == "reuses":
            with pytest.raises(tenure.NameMissing):
                tenure.variable("new", (1,), framework="torch")
        else:
            tenure.variable("new", (1,), framework="torch")


def test_prefixes_nest_and_can_be_entered_again(torch):
    store = tenure.Store("memory:")
    with tenure.variable_scope("model", store=store) as model:
        with tenure.variable_scope("encoder/first") as first:
            w = tenure.variable("w", (1,), framework="torch")
        assert first.name == "model/encoder/first"
        tenure.variable("top", (1,), framework="torch")
    with tenure.variable_scope("elsewhere"), tenure.variable_scope(first, reuse=True):
        assert tenure.variable("w") is w
    with model, tenure.variable_scope("", reuse=True):
        tenure.variable("top")
    assert sorted(store) == ["model/encoder/first/w", "model/top"]


def test_what_the_errors_say(torch):
    store = tenure.Store("memory:")
    with tenure.variable_scope("encoder", store=store):
        tenure.variable("weight", (3, 4), framework="torch")
        made = line()
        with pytest.raises(tenure.NameTaken) as taken:
            tenure.variable("weight", (3, 4), framework="torch")
        again = line()
    text = str(taken.value)
    assert "variable 'encoder/weight' already exists in memory:, so it cannot be created again" in text
    assert f"first: {__file__}:{made}" in text
    assert f"again: {__file__}:{again}" in text
    assert "variable_scope('encoder', reuse=True): tenure.variable('weight')" in text
    assert 'reuse="auto"' in text
    finding = tenure.explain(taken.value)
    assert finding.code == "TN401"
    assert [(place.role, place.line) for place in finding.places] == [("birth", made), ("use", again)]

    with tenure.variable_scope("encoder", reuse=True, store=store):
        with pytest.raises(tenure.NameMissing) as missing:
            tenure.variable("weigth")
        asked = line()
        with pytest.raises(tenure.NameTaken) as shaped:
            tenure.variable("weight", (4, 4), dtype="float16")
    text = str(missing.value)
    assert "variable 'encoder/weigth' does not exist in memory:, so it cannot be reused" in text
    assert f"near:  'encoder/weight', created at {__file__}:{made}" in text
    assert 'reuse="auto"' in text
    finding = tenure.explain(missing.value)
    assert finding.code == "TN402"
    assert [(place.role, place.line) for place in finding.places] == [("birth", made), ("use", asked)]
    assert "it is float32[3, 4], but float16[4, 4] was requested" in str(shaped.value)
    assert f"first: {__file__}:{made}" in str(shaped.value)

    del store["encoder/weight"]
    deleted = line()
    with tenure.variable_scope("encoder", reuse=True, store=store), pytest.raises(tenure.NameMissing) as gone:
        tenure.variable("weight")
    assert f"gone:  deleted at {__file__}:{deleted}" in str(gone.value)


def test_one_line_that_makes_it_twice_is_told_apart_by_its_caller(torch):
    def tower():
        return tenure.variable("w", (1,), framework="torch")

    with tenure.variable_scope("twice", store="memory:"):
        tower()
        with pytest.raises(tenure.NameTaken) as taken:
            tower()
    assert f"by:    {__file__}:{line()}" in str(taken.value)


def test_first_values(maker):
    import numpy

    store = tenure.Store("memory:")
    of = {"framework": maker}
    with tenure.variable_scope("init", store=store):
        assert values(tenure.variable("zeros", (2,), "zeros", **of)) == [0, 0]
        assert values(tenure.variable("number", (2,), 1.5, **of)) == [1.5, 1.5]
        assert values(tenure.variable("scalar", init=7, **of)) == 7
        assert values(tenure.variable("lists", init=[[1.0, 2.0]], **of)) == [[1, 2]]
        given = numpy.array([1.0, 2.0], "float32")
        made = tenure.variable("array", init=given, **of)
        given[:] = 0
        assert values(made) == [1, 2]  # a copy: nobody else's bytes
        assert values(tenure.variable("nothing", init=lambda: [4.0], **of)) == [4]
        assert values(tenure.variable("shaped", (2,), lambda shape: [len(shape)] * shape[0], **of)) == [1, 1]
        normal = numpy.array(values(tenure.variable("normal", (50, 50), "normal", **of)))
        assert 0.9 < normal.std() < 1.1
        glorot = numpy.array(values(tenure.variable("glorot", (50, 100), **of)))
        limit = (6 / 150) ** 0.5
        assert 0.9 * limit < abs(glorot).max() <= limit
        assert values(tenure.variable("counts", (2,), dtype="int32", **of)) == [0, 0]
        assert tenure.info(tenure.variable("half", (2,), 1, dtype="bfloat16", **of)).dtype == "bfloat16"


def test_the_frameworks_own_initial_values(maker):
    with tenure.variable_scope("own", store="memory:"):
        if maker == "torch":
            import torch

            made = tenure.variable("w", (2, 2), torch.nn.init.eye_)
            given = torch.ones(2, requires_grad=True)
        elif maker == "jax":
            import jax

            made = tenure.variable("w", (2, 2), jax.nn.initializers.ones)
            assert values(tenure.variable("n", (2, 2), jax.nn.initializers.normal())) != values(made)
            given = jax.numpy.ones(2)
        else:
            import tensorflow as tf

            made = tenure.variable("w", (2, 2), tf.keras.initializers.Ones())
            given = tf.ones(2)
        assert values(made)[0][0] == 1
        copy = tenure.variable("copy", init=given)  # whose framework is the given one's
        assert copy is not given
        assert values(copy) == [1, 1]
        assert tenure.info(copy).framework == maker


def test_another_frameworks_tensor_as_first_value(torch, jax, tf):
    with tenure.variable_scope("across", store="memory:"):
        w = tenure.variable("w", init=torch.tensor([1.0, 2.0]), framework="jax")
        assert (tenure.info(w).framework, values(w)) == ("jax", [1, 2])
        v = tenure.variable("v", init=jax.numpy.ones(2), framework="tensorflow")
        assert (tenure.info(v).framework, values(v)) == ("tensorflow", [1, 1])
        u = tenure.variable("u", init=tf.Variable([3.0]), framework="torch")
        assert (tenure.info(u).framework, values(u)) == ("torch", [3])


def test_which_framework(torch, jax):
    with tenure.variable_scope("which", store="memory:", reuse="auto"):
        with pytest.raises(tenure.Unsupported, match='pass framework="torch" or .*framework="jax"'):
            tenure.variable("w", (1,))
        made = tenure.variable("w", (1,), framework="jax")
        assert tenure.variable("w") is made  # it is known now
        assert type(tenure.variable("v", (1,), dtype=torch.float64)) is torch.nn.Parameter
        with pytest.raises(tenure.NameTaken, match="it is a variable of jax, but one of torch was requested"):
            tenure.variable("w", framework="torch")


def test_a_scope_of_tensors_never_ends_a_variable(maker, store):
    with tenure.scope("step"), tenure.variable_scope("kept", store=store):
        made = tenure.variable("w", (2,), "ones", framework=maker, trainable=False)
    assert values(made) == [1, 1]


def test_what_others_put_into_the_store_becomes_a_variable(maker):
    store = tenure.Store("memory:")
    with tenure.variable_scope("plain", store=store):
        made = tenure.variable("w", (2,), "ones", framework=maker)
    if maker == "torch":
        store["plain/w"] = made.detach() + 1
    else:
        store["plain/w"] = made + 1
    with tenure.variable_scope("plain", reuse=True, store=store):
        new = tenure.variable("w")
        assert new is tenure.variable("w")
        assert new is store["plain/w"]
    assert values(new) == [2, 2]
    assert type(new) is type(made)


def test_traces_and_modes_do_not_get_into_a_variable(torch, jax, tf):
    def ask(framework):
        with tenure.variable_scope("inside", reuse="auto", store=store):
            return tenure.variable(framework, (2,), 2.0, framework=framework)

    store = tenure.Store("memory:")
    assert tf.function(lambda x: x * ask("tensorflow"))(tf.ones(2)).numpy().tolist() == [2, 2]
    assert jax.jit(lambda x: x * ask("jax"))(jax.numpy.ones(2)).tolist() == [2, 2]
    assert values(ask("jax")) == [2, 2]  # an array, and no tracer that got out
    with torch.inference_mode():
        w = ask("torch")
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3, 3]
    with pytest.raises(tenure.Unsupported, match="symbolic value of the function that is being traced"):
        jax.jit(lambda x: tenure.variable("escapes", init=x))(jax.numpy.ones(2))


def test_compiled_code_uses_the_variable_itself(torch):
    store = tenure.Store("memory:")

    def tower(x):
        with tenure.variable_scope("compiled", reuse="auto", store=store):
            return x * tenure.variable("w", (2,), 2.0, framework="torch")

    compiled = torch.compile(tower, backend="eager")
    assert compiled(torch.ones(2)).tolist() == tower(torch.ones(2)).tolist() == [2, 2]
    with torch.no_grad():
        store["compiled/w"].add_(1)
    result = compiled(torch.ones(2))
    result.sum().backward()
    assert result.tolist() == [3, 3]
    assert store["compiled/w"].grad.tolist() == [1, 1]


def test_in_a_tensorflow_graph(tf):
    def tower(reuse):
        with tenure.variable_scope("shared", reuse):
            return tenure.variable("w", (2,), "ones")

    results = []
    for _ in range(2):  # each graph has names of its own
        graph = tf.Graph()
        with graph.as_default(), tf.compat.v1.name_scope("elsewhere"):
            first = tower(None)
            assert tower(True) is first
            with pytest.raises(tenure.NameTaken, match="already exists in the graph"):
                tower(None)
            double = first * 2
        assert first.name == "shared/w:0"
        with tenure.Session(graph=graph) as session:
            results.append(session.run(double).tolist())
    assert results == [[2, 2], [2, 2]]
    with graph.as_default(), pytest.raises(tenure.Unsupported, match="has its values in sessions"):
        with tenure.variable_scope("x", store="memory:"):
            tenure.variable("w", (1,))


def test_sixteen_threads_hold_one_object_made_once(maker):
    store = tenure.Store("memory:")
    calls, held, gate = [], [], threading.Barrier(16)

    def init(shape):
        calls.append(shape)
        return [1.0] * shape[0]

    def ask():
        gate.wait(30)
        for turn in range(20):
            with tenure.variable_scope(f"scope{turn}", reuse="auto", store=store):
                held.append((turn, tenure.variable("w", (2,), init, framework=maker)))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert len(held) == 320
    assert len(calls) == 20
    assert len({id(variable) for _, variable in held}) == 20


def test_of_creators_one_wins(torch):
    store = tenure.Store("memory:")
    outcomes, gate = [], threading.Barrier(8)

    def create():
        gate.wait(30)
        for name in map(str, range(50)):
            with tenure.variable_scope("race", store=store):
                try:
                    outcomes.append((name, tenure.variable(name, (1,), framework="torch")))
                except tenure.NameTaken as error:
                    assert error.first is not None
                    outcomes.append((name, None))

    threads = [threading.Thread(target=create) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert len(outcomes) == 400
    assert sorted(int(name) for name, made in outcomes if made is not None) == list(range(50))


def test_tasks_have_scopes_of_their_own(torch):
    store = tenure.Store("memory:")

    async def layer(name):
        with tenure.variable_scope(name, store=store):
            await asyncio.sleep(0)
            with tenure.variable_scope("inner"):
                await asyncio.sleep(0)
                tenure.variable("w", (1,), framework="torch")
                await asyncio.sleep(0)
            tenure.variable("v", (1,), framework="torch")

    async def main():
        with tenure.variable_scope("model"):
            await asyncio.gather(*(layer(f"layer{n}") for n in range(50)))
            tenure.variable("top", (1,), framework="torch")

    with tenure.variable_scope("", store=store):
        asyncio.run(main())
    wanted = {f"model/layer{n}/{last}" for n in range(50) for last in ("inner/w", "v")} | {"model/top"}
    assert set(store) == wanted


def test_a_context_manager_made_of_a_generator_carries_its_scope(torch):
    @contextlib.contextmanager
    def block(name):
        with tenure.variable_scope(name):
            yield

    store = tenure.Store("memory:")
    with tenure.variable_scope("model", store=store), block("a"), block("b"):
        tenure.variable("w", (1,), framework="torch")
    assert list(store) == ["model/a/b/w"]


def test_scopes_left_out_of_order_leave_nothing_behind(torch):
    store = tenure.Store("memory:")
    outer, inner = tenure.variable_scope("outer", store=store), tenure.variable_scope("inner", store=store)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    with tenure.variable_scope("", store=store):
        tenure.variable("w", (1,), framework="torch")
    assert list(store) == ["w"]


def test_an_init_that_asks_for_itself_is_an_error_not_a_deadlock(torch):
    store = tenure.Store("memory:")

    def ask(name, init):
        with tenure.variable_scope("", reuse="auto", store=store):
            return tenure.variable(name, init=init, framework="torch")

    with pytest.raises(tenure.StoreError, match="its init requests it"):
        ask("a", lambda: ask("a", None))
    errors, gate = [], threading.Barrier(2)

    def one(name, other):
        def init():
            gate.wait(30)
            return ask(other, lambda: torch.ones(1))

        try:
            ask(name, init)
        except tenure.StoreError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=one, args=pair) for pair in (("x", "y"), ("y", "x"))]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert not any(thread.is_alive() for thread in threads)
    assert len(errors) == 1  # the other one's turn then comes


BAD_NAMES = {"..": "'..' is not allowed", "a/../b": "'..' is not allowed", "a\0b": "the character", "x" * 10_000: "at most 512 bytes",
             "/a": "a part is empty", "a//b": "a part is empty", "\ud800": "must be valid Unicode", 3: "a name is a str", None: "a name is a str"}  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name)[:12])
def test_bad_names(torch, name):
    for ask in (lambda: tenure.variable(name, (1,), framework="torch"), lambda: tenure.variable_scope(name)):
        with pytest.raises(tenure.StoreError, match=BAD_NAMES[name]):
            ask()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"framework": "mxnet"}, "framework is one of torch, tensorflow, jax"),
        ({"framework": "numpy"}, "framework is one of torch, tensorflow, jax"),
        ({"shape": "ab"}, "a shape is a tuple of whole numbers"),
        ({"shape": (2, -1)}, "a shape is a tuple of whole numbers"),
        ({"shape": (2, 1.5)}, "a shape is a tuple of whole numbers"),
        ({"shape": 3.5}, "a shape is a tuple of whole numbers"),
        ({}, "needs a shape, or an init that has one"),
        ({"init": "ones"}, "needs a shape, or an init that has one"),
        ({"shape": (2,), "init": "xavier"}, "one of zeros, ones, normal, glorot"),
        ({"shape": (2,), "init": [1.0, 2.0, 3.0]}, r"must have the shape \[2\]"),
        ({"init": object()}, "cannot make a tensor of <object"),
        ({"init": lambda: None}, "cannot make a tensor of None"),
        ({"shape": (2,), "dtype": "float33"}, "torch has no dtype 'float33'"),
        ({"shape": (2,), "dtype": 7}, "torch has no dtype 7"),
    ],
)
def test_bad_input(torch, given, says):
    store = tenure.Store("memory:")
    with tenure.variable_scope("bad", store=store):
        with pytest.raises(tenure.Unsupported, match=says):
            tenure.variable("w", **{"framework": "torch", **given})
        assert len(store) == 0
        tenure.variable("w", (1,), framework="torch")  # nothing is stuck


def test_bad_scopes():
    with pytest.raises(tenure.Unsupported, match="reuse is None"):
        tenure.variable_scope("a", reuse="maybe")
    with pytest.raises(tenure.StoreError, match="is not a store"):
        tenure.variable_scope("a", store="redis:x")
    with pytest.raises(tenure.StoreError, match="is not a store"):
        tenure.variable_scope("a", store=7)


def test_an_init_that_fails_leaves_the_name_free(torch):
    with tenure.variable_scope("fails", store="memory:"):
        with pytest.raises(ZeroDivisionError):
            tenure.variable("w", init=lambda: 1 / 0, framework="torch")
        tenure.variable("w", (1,), framework="torch")


OTHER_PROCESS = """
    import sys
    import tenure

    for framework in sys.argv[2:]:
        with tenure.variable_scope(framework, reuse=True, store=sys.argv[1]):
            w = tenure.variable("w")  # which imports the framework
            assert w is tenure.variable("w")
            value = w.detach() if framework == "torch" else w
            print(framework, tenure.info(w).kind, value.numpy().tolist() if hasattr(value, "numpy") else value.tolist())
            try:
                tenure.variable("w", (7,))
            except tenure.NameTaken as error:
                print(error.first.line)
        with tenure.variable_scope(framework, store=sys.argv[1]):
            tenure.variable("theirs", (2,), 5.0, framework=framework)
"""


@pytest.mark.parametrize(
    "makers", [("torch", "jax"), pytest.param(("tensorflow",), marks=pytest.mark.long)], ids=" ".join
)
def test_another_process_gets_an_equal_value(makers, request, tmp_path):
    [request.getfixturevalue({"tensorflow": "tf"}.get(name, name)) for name in makers]
    url = f"file:{tmp_path / 'store'}"
    made = {}
    for framework in makers:
        with tenure.variable_scope(framework, store=url):
            made[framework] = tenure.variable("w", (3,), "normal", framework=framework)
            at = line()
    code = textwrap.dedent(OTHER_PROCESS)
    command = [sys.executable, "-W", "ignore", "-c", code, url, *makers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    kinds = {"torch": "parameter", "jax": "array", "tensorflow": "variable"}
    told = iter(done.stdout.splitlines())
    for framework in makers:
        assert next(told) == f"{framework} {kinds[framework]} {values(made[framework])}"
        assert next(told) == str(at)  # where this process made it
        with tenure.variable_scope(framework, reuse=True, store=url):
            assert values(tenure.variable("theirs")) == [5, 5]
            assert tenure.variable("theirs") is tenure.variable("theirs")
            assert tenure.variable("w") is made[framework]


ON_A_CLUSTER = """
    import logging
    import ray, torch
    import tenure

    ray.init("local", num_cpus=1, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    with tenure.variable_scope("m", store="ray:variables"):
        w = tenure.variable("w", (2, 2), "normal", framework="torch")
    with tenure.variable_scope("m", reuse=True, store="ray:variables"):
        assert tenure.variable("w") is w

    @ray.remote
    def other():
        with tenure.variable_scope("m", reuse=True, store="ray:variables"):
            theirs = tenure.variable("w")
            assert theirs is tenure.variable("w")
            assert type(theirs) is torch.nn.Parameter
            with torch.no_grad():
                theirs.add_(1)  # on bytes of its own
            return theirs.tolist()

    assert torch.equal(torch.tensor(ray.get(other.remote())), w + 1)
    print("good")
"""


@pytest.mark.long
def test_another_process_of_a_cluster_gets_an_equal_value(torch):
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(ON_A_CLUSTER)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr[-2000:]


def test_one_object_for_all_who_open_the_same_files(maker, tmp_path):
    url = f"file:{tmp_path / 'store'}"

    def ask():
        with tenure.variable_scope("m", reuse="auto", store=tenure.Store(url)):
            return tenure.variable("w", (2,), "ones", framework=maker)

    assert ask() is ask()  # the first is held by nobody but the store, which the comparison keeps

    first = ask()
    if maker == "jax":  # an array cannot change: the new value is put
        tenure.Store(url)["m/w"] = first + 1
        assert values(ask()) == [2, 2]
        assert ask() is ask()
    else:
        import torch

        with torch.no_grad():
            first.add_(1) if maker == "torch" else first.assign_add([1.0, 1.0])
        assert ask() is first  # what was trained since is not undone
        tenure.Store(url)["m/w"] = first
        assert ask() is first
        assert values(tenure.Store(url)["m/w"]) == [2, 2]


def test_a_deleted_variable_can_be_made_anew(maker, store):
    def ask():
        with tenure.variable_scope("m", store=store):
            return tenure.variable("w", (2,), "ones", framework=maker)

    first = ask()
    del store["m/w"]
    second = ask()
    assert second is not first
    assert values(second) == [1, 1]
