"""What remains after dispose? One short program, the same question in every framework that is installed.

Run it with `make demo`, or `python examples/what_remains.py [torch|jax|tensorflow]`.
"""

from __future__ import annotations

import importlib.util
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import tenure

history = []


def say(title, answer):
    print(f"\n{title}")
    print("\n".join(f"    {line}" for line in str(answer).splitlines()))


def used(action):
    try:
        return action()
    except tenure.TensorReleased as error:
        return error


def in_torch():
    import torch

    x = torch.ones(1024, 1024)
    say("A tensor that nobody else needs", tenure.dispose(x))
    say("The handle is still there, and says what it was", repr(x))
    say("To use it is an error that tells where it ended", used(lambda: x + 1))

    x = torch.ones(1024, 1024)
    rows = x[:16]
    say("A view of 16 rows keeps all 1024", tenure.dispose(x))
    say("and is right to the bit", f"rows.sum() = {rows.sum().item()}")

    x = torch.ones(1024, 1024)
    array = x.numpy()
    say("An array exported to NumPy", tenure.dispose(x))
    say("and is right to the bit", f"array.sum() = {array.sum()}")

    x = torch.ones(1024, 1024)
    weight = torch.full((1024, 1024), 2.0, requires_grad=True)
    loss = (x * weight).sum()
    say("A tensor that autograd saved for backward", tenure.dispose(x))
    loss.backward()
    say("backward still works", f"weight.grad.sum() = {weight.grad.sum().item()}")

    x = torch.ones(1024, 1024)
    history.append(x[0])
    say("A row left in a list", tenure.dispose(x))
    history.clear()

    with tenure.scope("step") as step:
        hidden = torch.ones(512, 512) @ torch.ones(512, 512)
        best = step.keep(hidden.max())
    say("A scope ends what was born in it, except what is kept", step.remains)
    say("the kept value", best)


def in_jax():
    import jax.numpy as jnp
    import numpy as np

    x = jnp.ones((1024, 1024))
    view = np.asarray(x)
    say("JAX deletes, but does not say that a NumPy view still holds the bytes", tenure.dispose(x))
    say("the view is right to the bit", f"view.sum() = {view.sum()}")
    say("To use the array is an error that tells where it ended", used(lambda: x + 1))

    x = jnp.ones((1024, 1024))
    row = x[0]
    say("A slice is a copy in JAX: nothing is held", tenure.dispose(x))
    say("the slice", f"row.sum() = {row.sum()}")

    history.append(jnp.ones((512, 512)))
    say("An array left in a list is ended in place; the list keeps the handle", tenure.dispose(history))
    history.clear()


def in_tensorflow():
    import tensorflow as tf

    x = tf.ones((1024, 1024))
    history.append(x)
    say("TensorFlow cannot end an eager tensor under its handle: who holds it?", tenure.dispose(x))
    history.clear()

    owned = tenure.own(tf.ones((1024, 1024)))
    total = tf.reduce_sum(owned)
    say("An owned one can be ended", tenure.dispose(owned))
    say("what was computed from it stays", f"total = {total.numpy()}")
    say("To use it is an error that tells where it ended", used(lambda: tf.reduce_sum(owned)))

    variable = tf.Variable(tf.ones((1024, 1024)), name="embedding")
    say("So can a variable", tenure.dispose(variable))
    say("and says what it was", repr(variable))


def main():
    wanted = sys.argv[1:] or [name for name in ("torch", "jax", "tensorflow") if importlib.util.find_spec(name)]
    for name in wanted:
        print(f"\n===== {name} =====")
        {"torch": in_torch, "jax": in_jax, "tensorflow": in_tensorflow}[name]()


if __name__ == "__main__":
    main()
