"""One tensor in several functions, threads, frameworks and processes, without globals.

Run it with `python examples/sharing_stores.py [eager|graph]`; the argument sets how TensorFlow runs.
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
    """One function puts a tensor under a name, and another reads it: no global is needed."""
    import tensorflow as tf

    def create_tensor():
        store["inputs/x"] = tf.constant([4, 5, 6])

    def use_tensor():
        return (store["inputs/x"] * 2).numpy().tolist()

    create_tensor()
    return use_tensor()


def a_tensor_from_another_function_in_a_graph(store):
    """Store the result of a session's run, and feed it to a later run: a graph's tensors have no values before they are run."""
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
    """The scope releases its tensors, except the one that is stored."""
    import torch

    with tenure.scope("step") as step:
        hidden = torch.ones(256, 256) @ torch.ones(256, 256)
        store["best"] = hidden.max()
    return store["best"].item(), step.remains.freed_bytes


def one_tensor_in_two_frameworks(store):
    """JAX reads the same bytes without a copy. If a copy were necessary, a warning would give the reason."""
    import torch

    store["features"] = torch.arange(16.0)
    reading = store.read("features", like="jax")
    return type(reading.value).__module__.split(".")[0], float(reading.value.sum()), reading.copied


def writers_that_do_not_overwrite_each_other(store):
    """Put a value only if the version has not changed: no update is lost, without a lock."""
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
                    continue  # another thread was faster: read again

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return store["count"].tolist()


def what_remains(store):
    """Deleting a name reports what still references the tensor, which stays valid."""
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
