"""How to run something after a session's block: sessions written correctly.

Each function corrects one snippet from texts about sessions, with a TensorFlow graph and without one.

    python examples/sharing_sessions.py
"""

from __future__ import annotations

import asyncio
import os
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import tenure


def numbers():
    """Create a tensor: in the graph that is being built, or immediately."""
    return tf.constant([1, 2, 3])


def returned_from_a_function_graph():
    """A session runs a tensor that a function returned, if the tensor belongs to the session's graph."""
    graph = tf.Graph()
    with graph.as_default():
        y = numbers()
    with tenure.Session(graph=graph) as session:
        return session.run(y).tolist()


def returned_from_a_function_eager():
    """Without a graph, the tensor already has its value. The session reports that, instead of "graph is empty"."""
    y = numbers()
    with tenure.Session() as session:
        try:
            session.run(y)
        except tenure.Unsupported as error:
            return y.numpy().tolist(), error.finding.code
    raise AssertionError


def many_from_a_loop_graph():
    """Several workers run the tensors of a loop in one session."""
    graph = tf.Graph()
    with graph.as_default():
        rows = [tf.constant([i, i + 1, i + 2]) for i in range(3)]
    with tenure.Session(graph=graph, workers=2) as session:
        return [future.result().tolist() for future in [session.submit(row) for row in rows]]


def variables_have_values_graph():
    """Each session initialises the variables: you cannot forget the initializer."""
    graph = tf.Graph()
    with graph.as_default():
        total = tf.Variable(10)
        add = total.assign_add(20)
    results = []
    for _ in range(2):
        with tenure.Session(graph=graph) as session:
            session.run(add)
            results.append(int(session.run(total)))
    return results


def an_error_in_the_block():
    """You need no `finally`: the session is closed in any case, and reports why."""
    try:
        with tenure.Session(name="step") as session:
            session.run(lambda: 1 / 0)
    except ZeroDivisionError:
        return session.close().why
    raise AssertionError


def after_its_end():
    """Running something in a closed session raises an error that shows where the session was opened and closed."""
    with tenure.Session(name="evaluation") as session:
        session.run(numbers)

    def report():
        return session.run(numbers)

    try:
        report()
    except tenure.SessionClosed as late:
        return str(late)
    raise AssertionError


def outside_of_the_block():
    """Code that must continue after the block takes a lease: the session closes when the last lease is released."""
    results = []

    def helper(lease):
        with lease as session:
            results.append(session.run(lambda: numbers().numpy().tolist()))

    with tenure.Session() as session:
        thread = threading.Thread(target=helper, args=(session.lease(),))
    # The block has exited, but the session is still open.
    assert not session.close().ended
    thread.start()
    thread.join()
    assert session.close().ended
    return results


def asynchronous():
    """The same for asyncio tasks: nothing blocks the event loop, and runs wait while the queue is full."""

    async def main():
        async with tenure.Session(workers=2, queue=4) as session:
            return await asyncio.gather(*(session.arun(lambda i=i: int(tf.square(i))) for i in range(8)))

    return asyncio.run(main())


def what_remains():
    """A session releases the tensors of its runs that are not results. The report shows what remains and why."""
    cache = []

    def predict():
        cache.append(tenure.own(tf.ones((256, 256))))
        return tf.reduce_sum(cache[-1])

    with tenure.Session(name="serving") as session:
        total = session.run(predict)
    return float(total), str(session.close())


EXAMPLES = (
    returned_from_a_function_graph,
    returned_from_a_function_eager,
    many_from_a_loop_graph,
    variables_have_values_graph,
    an_error_in_the_block,
    after_its_end,
    outside_of_the_block,
    asynchronous,
    what_remains,
)

if __name__ == "__main__":
    for example in EXAMPLES:
        print(f"\n{example.__doc__}")
        answer = example()
        for part in answer if isinstance(answer, tuple) else (answer,):
            print("\n".join(f"    {line}" for line in str(part).splitlines()))
