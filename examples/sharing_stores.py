"""One tensor in several functions, threads, frameworks and processes, without globals.

Run it with `python examples/sharing_stores.py [eager|graph]`; the word says how TensorFlow runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import tenure


def a_tensor_from_another_function(store):
    """Instead of a global that one function sets and another reads: a name, whoever asks for it."""
    import tensorflow as tf

    def create_tensor():
        store["inputs/x"] = tf.constant([4, 5, 6])

    def use_tensor():
        return (store["inputs/x"] * 2).numpy().tolist()

    create_tensor()
    return use_tensor()


def a_tensor_from_another_function_in_a_graph(store):
    """A graph's tensors have no values before they are run: what a session gives is stored, and fed again."""
    import tensorflow as tf

    v1 = tf.compat.v1

    def create_tensor():
        with tf.Graph().as_default(), v1.Session() as session:
            store["inputs/x"] = session.run(tf.constant([4, 5, 6]))

    def use_tensor():
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.int32, [3])
            return session.run(x * 2, {x: store["inputs/x"]}).tolist()

    create_tensor()
    return use_tensor()


def a_tensor_that_outlives_its_scope(store):
    """What is stored is no scope's any more; the rest ends with the scope."""
    import torch

    with tenure.scope("step") as step:
        hidden = torch.ones(256, 256) @ torch.ones(256, 256)
        store["best"] = hidden.max()
    return store["best"].item(), step.remains.freed_bytes


def one_tensor_in_two_frameworks(store):
    """The same bytes, read by JAX: no copy, and if there had to be one, a warning would say why."""
    import torch

    store["features"] = torch.arange(16.0)
    reading = store.read("features", like="jax")
    return type(reading.value).__module__.split(".")[0], float(reading.value.sum()), reading.copied


def writers_that_do_not_overwrite_each_other(store):
    """Read, change, and put only if nobody was quicker: no count is lost, without a lock."""
    import numpy as np

    store["count"] = np.zeros(1)

    def add():
        for _ in range(100):
            while True:
                now = store.read("count")
                try:
                    store.put("count", now.value + 1, expect=now.version)
                    break
                except tenure.StoreError:
                    continue  # somebody was quicker: read again

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return store["count"].tolist()


def what_remains(store):
    """Deleting a name says who still has the tensor; he can go on with it."""
    import torch

    weights = store["w"] = torch.ones(1024, 1024)
    with store.lease("w"):
        try:
            store.delete("w")
        except tenure.StoreError as error:
            print(error)
    print(store.delete("w"))
    try:
        store["w"]
    except tenure.NameMissing as error:
        print(error)
    return weights.sum().item()


def another_process(folder):
    """A store in a folder: another process maps the same bytes. The files are safetensors, for any tool."""
    import numpy as np

    with tenure.Store(f"file:{folder}") as store:
        store["encoder/w"] = np.arange(4.0)
        program = f"import numpy, tenure; print(tenure.Store({store.url!r})['encoder/w'].sum())"
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()


def main(mode="eager"):
    store = tenure.Store("memory:")
    first = {"eager": a_tensor_from_another_function, "graph": a_tensor_from_another_function_in_a_graph}[mode]
    for example in (
        first,
        a_tensor_that_outlives_its_scope,
        one_tensor_in_two_frameworks,
        writers_that_do_not_overwrite_each_other,
        what_remains,
    ):
        print(f"\n{example.__doc__.splitlines()[0]}")
        print("   ", example(store))
    with tempfile.TemporaryDirectory() as folder:
        print(f"\n{another_process.__doc__.splitlines()[0]}")
        print("   ", another_process(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
