"""What `tenure.dispose` frees, and what keeps the rest allocated, in each framework that is installed.

Run all of it, or one framework: `python examples/what_remains.py [torch] [jax] [tensorflow]`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import textwrap

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # with it, TensorFlow logs a line that no level switches off
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import tenure

history = []


def show(title, answer):
    print(title)
    for line in str(answer).splitlines():
        print(textwrap.fill(line, 96, initial_indent="    ", subsequent_indent="        "))


def in_torch():
    import torch

    x = torch.ones(1024, 1024)
    rows = x[:16]
    show("torch: a view of 16 rows keeps the memory of all 1024 rows", tenure.dispose(x))
    assert rows.sum() == 16 * 1024  # the view still has the right values

    x = torch.ones(1024, 1024)
    weight = torch.full((1024, 1024), 2.0, requires_grad=True)
    loss = (x * weight).sum()
    show("torch: autograd keeps what it saved for backward()", tenure.dispose(x))
    loss.backward()
    assert weight.grad.sum() == 1024 * 1024  # and the gradient is right


def in_jax():
    import jax.numpy as jnp
    import numpy as np

    x = jnp.ones((1024, 1024))
    view = np.asarray(x)
    show("jax: a NumPy view keeps the memory of a deleted array", tenure.dispose(x))
    assert view.sum() == 1024 * 1024


def in_tensorflow():
    import tensorflow as tf

    history.append(tf.ones((1024, 1024)))
    show("tensorflow: a tensor cannot be released while a list references it", tenure.dispose(history[0]))
    history.clear()

    owned = tenure.own(tf.ones((1024, 1024)))
    total = tf.reduce_sum(owned)
    show("tensorflow: a tensor in tenure.own(x) can be released", tenure.dispose(owned))
    assert total == 1024 * 1024


def main():
    wanted = sys.argv[1:] or [name for name in ("torch", "jax", "tensorflow") if importlib.util.find_spec(name)]
    for name in wanted:
        {"torch": in_torch, "jax": in_jax, "tensorflow": in_tensorflow}[name]()


if __name__ == "__main__":
    main()
