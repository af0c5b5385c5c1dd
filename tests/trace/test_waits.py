"""Nothing of tenure's waits for a computation while it holds the interpreter lock: a callback of it may need that."""

import os
import subprocess
import sys

import pytest

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}

# The arrays of a step are asked about in its own callback's thread, and while a call takes one as a donation.
CALLBACKS = """
import faulthandler, functools, threading
faulthandler.dump_traceback_later(60, exit=True)
import jax, jax.numpy as jnp, tenure

norms = []

def energy(w, x):
    h = jnp.tanh(x @ w)
    jax.debug.callback(lambda v: norms.append(float(v)), jnp.abs(h).mean())
    return (h * h).mean()

@jax.jit
def update(w, x):
    value, slope = jax.value_and_grad(energy)(w, x)
    return w - 0.1 * slope, value

w = 0.05 * jax.random.normal(jax.random.key(7), (256, 128))
for i in range(ROUNDS):
    w, value = update(w, jax.random.normal(jax.random.key(i), (64, 256)))
jax.effects_barrier()
print(len(norms), "callbacks")

entered, leave = threading.Event(), threading.Event()

def wait(value):
    entered.set()
    leave.wait()
    return value

def called(x):
    return jax.pure_callback(wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x @ x) + 1

for function in jax.jit(called, donate_argnums=0), jax.jit(called):
    for size in 4, 256:
        entered.clear(), leave.clear()
        x = jnp.ones((size, size)) + 1
        x.block_until_ready()
        results = []
        thread = threading.Thread(target=lambda: results.append(function(x)))
        thread.start()
        entered.wait()
        alias = jax.device_put(x, jax.devices()[0]) if not x.is_deleted() else None
        before = tenure.info(x).state, tenure.memory() is not None, tenure.holders(x) is not None
        leave.set()
        thread.join()
        y = function(jnp.ones((size, size)))  # inside the main thread, which waits for it
        alias = jax.device_put(y, jax.devices()[0])
        print(size, before, tenure.memory() is not None, tenure.info(y).state, y.shape)
"""


@pytest.mark.parametrize("native", ["1", pytest.param("0", marks=pytest.mark.long)])
def test_callbacks_of_jax_are_not_waited_for(tmp_path, jax, native, rounds=60):
    program = tmp_path / "callbacks.py"
    program.write_text(CALLBACKS.replace("ROUNDS", str(rounds)))
    command = [sys.executable, "-m", "tenure", "run", "-o", tmp_path / "t", program]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=90, env=CLEAN | {"TENURE_NATIVE": native}, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    donated = "('donated', True, True) True live"
    live = "('live', True, True) True live"
    wanted = [f"{rounds} callbacks", *(f"{n} {how} ({n}, {n})" for how in (donated, live) for n in (4, 256))]
    assert done.stdout.splitlines() == wanted


@pytest.mark.long
def test_callbacks_of_jax_are_never_waited_for(tmp_path, jax):
    for time in range(5):
        (tmp_path / str(time)).mkdir()
        test_callbacks_of_jax_are_not_waited_for(tmp_path / str(time), jax, "1", rounds=100)
