"""How to use a tensor that another function created: shared tensors written correctly.

Each function corrects one snippet from texts about sharing, in eager mode and in a graph, and for other frameworks.

    python examples/sharing_variables.py
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import tenure


def returned():
    """The simplest way is to return it. A scope around the function keeps the result, and releases the rest."""

    @tenure.scope
    def make():
        noise = tf.ones(1000)
        return tf.constant([1.0, 2.0, 3.0]) + noise[0]

    return (make() + 2.0).numpy().tolist()


def instead_of_a_global():
    """Put what many functions need into a store: no `global`, no race, and the store records who put it."""
    store = tenure.Store("memory:")

    def create():
        store["numbers"] = tf.constant([4, 5, 6])

    def use():
        return (store["numbers"] * 2).numpy().tolist()

    create()
    return use()


def build(framework=None):
    """Create a variable with a name."""
    with tenure.variable_scope("shared_scope"):
        return tenure.variable("my_variable", (2, 2), "zeros", framework=framework)


def use():
    """Get it in another function, by the same name."""
    with tenure.variable_scope("shared_scope", reuse=True):
        return tenure.variable("my_variable")


def one_variable_eager():
    """Two functions that ask for the same name get the same object, in eager mode too."""
    with tenure.variable_scope("eager"):
        first, second = build("tensorflow"), use()
        first.assign_add(tf.ones((2, 2)))
    return first is second, second.numpy().tolist()


def one_variable_graph():
    """The same two functions in a graph: the variables belong to the graph, and their values to each session."""
    graph = tf.Graph()
    with graph.as_default():
        first, second = build(), use()
        update = first.assign_add(tf.ones((2, 2)))
    with tenure.Session(graph=graph) as session:
        session.run(update)
        return first is second, second.name, session.run(second).tolist()


def a_tower_built_twice():
    """reuse="auto" creates the variable if it does not exist: the same code can run twice."""

    def tower(x):
        with tenure.variable_scope("tower", reuse="auto"):
            return x * tenure.variable("w", (2,), 3.0, framework="tensorflow")

    return tower(1.0).numpy().tolist(), tower(2.0).numpy().tolist()


def made_twice_by_mistake():
    """Without it, the second call fails; the error shows where the first variable was created, and what to write."""
    with tenure.variable_scope("twice"):
        build("tensorflow")
        try:
            build("tensorflow")
        except tenure.NameTaken as taken:
            return str(taken)
    raise AssertionError


def never_made():
    """Reusing a name that does not exist raises an error that shows the nearest name."""
    with tenure.variable_scope("never"):
        build("tensorflow")
    with tenure.variable_scope("never", reuse=True):
        try:
            tenure.variable("shared_scope/my_varable")
        except tenure.NameMissing as missing:
            return str(missing)
    raise AssertionError


def between_processes(folder):
    """The same with a store in files: another process that uses the name gets an equal value."""
    with tenure.variable_scope("model", reuse="auto", store=f"file:{folder}"):
        return tenure.variable("step", init=41, framework="tensorflow").numpy() + 1


EXAMPLES = (
    returned,
    instead_of_a_global,
    one_variable_eager,
    one_variable_graph,
    a_tower_built_twice,
    made_twice_by_mistake,
    never_made,
)

if __name__ == "__main__":
    import tempfile

    for example in EXAMPLES:
        print(f"\n{example.__doc__}")
        answer = example()
        for part in answer if isinstance(answer, tuple) else (answer,):
            print("\n".join(f"    {line}" for line in str(part).splitlines()))
    print(f"\n{between_processes.__doc__}")
    with tempfile.TemporaryDirectory() as place:
        print(f"    {between_processes(place)}, {between_processes(place)}")
