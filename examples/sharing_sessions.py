"""How do I run something outside of the session's block? Sessions as they should have been written.

Each function answers one snippet of the texts about sessions, with a TensorFlow graph and without one.

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
    """A function that makes a tensor: in whatever graph is being built, or at once."""
    return tf.constant([1, 2, 3])


def returned_from_a_function_graph():
    """A tensor that a function returned is run by a session of the graph that it was built in, whenever that is."""
    graph = tf.Graph()
    with graph.as_default():
        y = numbers()
    with tenure.Session(graph=graph) as session:
        return session.run(y).tolist()


def returned_from_a_function_eager():
    """Without a graph there is nothing to run: the tensor has its value. A session says so, instead of "graph is empty"."""
    y = numbers()
    with tenure.Session() as session:
        try:
            session.run(y)
        except tenure.Unsupported as refused:
            return y.numpy().tolist(), refused.finding.code
    raise AssertionError


def many_from_a_loop_graph():
    """Tensors from a loop, run one after the other, by workers, in one session."""
    graph = tf.Graph()
    with graph.as_default():
        rows = [tf.constant([i, i + 1, i + 2]) for i in range(3)]
    with tenure.Session(graph=graph, workers=2) as session:
        return [future.result().tolist() for future in [session.submit(row) for row in rows]]


def variables_have_values_graph():
    """Each session begins with the variables' first values: no initializer to forget."""
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
    """No `finally`: whatever happens inside, the session is closed, and says why to those who come later."""
    try:
        with tenure.Session(name="step") as session:
            session.run(lambda: 1 / 0)
    except ZeroDivisionError:
        return session.close().why
    raise AssertionError


def after_its_end():
    """To run something later is an error that names every place that matters."""
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
    """What really must go on past the block takes a lease: the session ends with the last one."""
    results = []

    def helper(lease):
        with lease as session:
            results.append(session.run(lambda: numbers().numpy().tolist()))

    with tenure.Session() as session:
        thread = threading.Thread(target=helper, args=(session.lease(),))
    # The block is over, and the session is not.
    assert not session.close().ended
    thread.start()
    thread.join()
    assert session.close().ended
    return results


def asynchronous():
    """The same for tasks: nothing blocks the event loop, and more than the queue takes waits its turn."""

    async def main():
        async with tenure.Session(workers=2, queue=4) as session:
            return await asyncio.gather(*(session.arun(lambda i=i: int(tf.square(i))) for i in range(8)))

    return asyncio.run(main())


def what_remains():
    """What was born in a session and was nobody's result ends with it; the report says what remains, and who holds it."""
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
