"""Sessions on TensorFlow graphs: what belongs to the graph runs, and what does not is refused with the fault it is."""

import asyncio
import inspect
import threading

import pytest

import tenure


def line(back=1):
    return inspect.currentframe().f_back.f_lineno - back


@pytest.fixture
def model(tf):
    """A graph with a placeholder, variables, one of which is made of another, and an update."""

    class Model:
        graph = tf.Graph()
        with graph.as_default():
            x = tf.compat.v1.placeholder(tf.float32, (), name="x")
            w = tf.Variable(2.0, name="w")
            double = tf.Variable(w * 2, name="double")
            y = tf.add(x * w, double, name="y")
            update = w.assign_add(1.0)

    return Model


def test_variables_are_initialised_for_each_session(model, tf):
    for _ in range(2):  # and start anew
        with tenure.Session(graph=model.graph) as session:
            assert session.run(model.y, {model.x: 3.0}) == 10.0
            session.run(model.update)
            assert session.run({"y": [model.y], "w": model.w}, feed_dict={model.x: 3.0}) == {"y": [13.0], "w": 3.0}
            with model.graph.as_default():
                late = tf.Variable(7.0)
            assert session.run(late) == 7.0
            assert session.run("y:0", {"x:0": 1.0}) == 7.0
            assert session.run(model.w) == 3.0  # a new variable does not set the old ones back


def test_a_finalized_graph_runs_too(tf):
    graph = tf.Graph()
    with graph.as_default():
        w = tf.Variable(1.0)
    graph.finalize()
    with tenure.Session(graph=graph) as session:
        assert session.run(w) == 1.0


def test_submitted_and_awaited(model):
    with tenure.Session(graph=model.graph, workers=3) as session:
        futures = [session.submit(model.y, {model.x: float(n)}) for n in range(50)]
        assert [future.result() for future in futures] == [2.0 * n + 4 for n in range(50)]

    async def main():
        async with tenure.Session(graph=model.graph, workers=2, queue=2) as inner:
            return await asyncio.gather(*(inner.arun(model.y, {model.x: float(n)}) for n in range(20)))

    assert asyncio.run(main()) == [2.0 * n + 4 for n in range(20)]


def test_functions_run_with_the_graph_and_session_as_defaults(model, tf):
    def build():
        assert tf.compat.v1.get_default_graph() is model.graph
        return tf.compat.v1.get_default_session().run(model.y * 2, {model.x: 1.0})

    with tenure.Session(graph=model.graph) as session:
        assert session.run(build) == 12.0
        assert session.submit(build).result() == 12.0


def test_another_thread_needs_no_default_graph(model):
    results = []
    with tenure.Session(graph=model.graph) as session:
        lease = session.lease()

        def helper():
            with lease as mine:
                results.append(mine.run(model.y, {model.x: 0.0}))

        thread = threading.Thread(target=helper)
        thread.start()
        thread.join(60)
    assert results == [4.0]


def test_eager_tensors_are_refused_as_what_they_are(model, tf):
    with tenure.Session(graph=model.graph) as session:
        for what in (tf.constant(1.0), [model.y, tf.constant(1.0)], {"a": tf.Variable(1.0)}):
            with pytest.raises(
                tenure.Unsupported, match=r"(?s)^\[TN202\].*is eager: it already has a value"
            ) as refused:
                session.run(what, {model.x: 1.0})
            used = line()
            assert f"used:  {__file__}:{used}" in str(refused.value)
            assert "x.numpy()" in str(refused.value)
            finding = tenure.explain(refused.value)
            assert finding.code == "TN202"
            assert finding is refused.value.finding
            assert [(place.role, place.line) for place in finding.places] == [("use", used)]
        with pytest.raises(tenure.Unsupported, match=r"(?s)^\[TN202\].*feed its value: `x.numpy\(\)`"):
            session.submit(model.y, {model.x: tf.constant(1.0)})
        assert session.run(model.y, {model.x: 1.0}) == 6.0
    with tenure.Session() as plain, pytest.raises(tenure.Unsupported, match=r"^\[TN202\]"):
        plain.run(tf.constant(1.0))


def test_foreign_graphs_are_refused_as_what_they_are(model, tf):
    with tf.Graph().as_default():
        foreign = tf.constant(1.0, name="foreign")
        made = line()
        variable = tf.Variable(1.0)
    with tenure.Session(graph=model.graph) as session:
        for what, feed in ((foreign, None), ([model.y, foreign.op], None), (variable, None), (model.y, {foreign: 1.0})):
            with pytest.raises(
                tenure.Unsupported, match=r"(?s)^\[TN103\].*does not belong to this session's graph"
            ) as refused:
                session.run(what, feed)
            assert tenure.explain(refused.value).code == "TN103"
        with pytest.raises(tenure.Unsupported) as refused:
            session.run(foreign)
        assert f"created: {__file__}:{made}" in str(refused.value)
        assert [place.role for place in refused.value.finding.places] == ["birth", "use"]
    with tenure.Session() as plain, pytest.raises(tenure.Unsupported, match=r"tenure.Session\(graph=graph\)"):
        plain.run(foreign)


def test_after_its_end(model):
    with tenure.Session(graph=model.graph, name="g") as session:
        session.run(model.y, {model.x: 1.0})
    with pytest.raises(tenure.SessionClosed, match="cannot run <tf.Tensor 'y:0' .*>: session 'g' is already closed"):
        session.run(model.y, {model.x: 1.0})
    with pytest.raises(RuntimeError, match="closed Session"):
        session._graph._session._session.run(model.x, {model.x: 1.0})  # TensorFlow's own is closed too


def test_bad_input(model, tf):
    with tenure.Session(graph=model.graph) as session:
        with pytest.raises(tenure.NameMissing, match=r"(?s)nothing named 'yy:0'; nearest: .*'y:0'"):
            session.run("yy:0")
        for args, kwargs in (((1,), {}), (({}, {}), {}), ((), {"fed": 1}), (({},), {"feed_dict": {}})):
            with pytest.raises(tenure.Unsupported, match="feed_dict"):
                session.run(model.y, *args, **kwargs)
        for what in (None, 3, object()):
            with pytest.raises(TypeError):
                session.run(what)
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(model.y)  # nothing fed: TensorFlow's own words
        assert session.run(model.y, {model.x: 1.0}) == 6.0
