"""A debugger may show every attribute of what tenure ended: reading gives a value or a Python error, never a crash."""

import subprocess
import sys

import pytest

MADE = {
    "torch": """
import torch
made = [
    torch.ones(2, 3), torch.nn.Parameter(torch.ones(2, 3)), torch.ones(2, 3, requires_grad=True) * 2,
    torch.eye(3).to_sparse(), torch.ones(2, 3)[0],
]
""",
    "jax": """
import jax, jax.numpy as jnp
made = [jnp.arange(6.0) + 1, jax.random.key(0), jnp.ones((2, 3)), jnp.float32(1) + 1]
""",
    "tensorflow": """
import tensorflow as tf
made = [tf.Variable(tf.ones((2, 3))), tf.Variable(1.0, trainable=False), tf.Variable(["text"])]
""",
}
READ = """
import copy, faulthandler, inspect, pickle, sys
import tenure

faulthandler.enable()

def attempt(name, read):
    print(name, end=" ", flush=True)  # the last one printed is the one that crashed
    try:
        read()
    except Exception as error:
        assert str(error) or type(error) is AssertionError, (name, type(error))

read = 0
for x in made:
    names = dir(x)
    tenure.dispose(x)
    assert "released" in repr(x) and "released" in str(x) and "released" in f"{x}", repr(x)
    for name in names:
        attempt(name, lambda: getattr(x, name))
        read += 1
    for act in (copy.copy, copy.deepcopy, pickle.dumps, hash, inspect.getmembers, bool, len, iter, vars):
        attempt(act.__name__, lambda: act(x))
    attempt("==", lambda: x == x)
    attempt("is in", lambda: x in [1, x])
    attempt("static", lambda: inspect.getmembers_static(x))
print()
print(read)
"""


@pytest.mark.parametrize("which", sorted(MADE))
def test_every_attribute_can_be_read(which):
    pytest.importorskip(which)
    program = MADE[which] + READ
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-1500:]
    assert int(done.stdout.split("\n")[-2]) > 200
