"""Makes the memory profile of JAX that the tests read, with JAX's own figures beside it.

python tests/trace/programs/jax_memory_profile.py FILE
"""

import json
import sys

import jax
import jax.numpy as jnp


def layer(n):
    return jnp.ones((n, n), jnp.float32)


def model():
    return [layer(256) for _ in range(3)] + [jnp.zeros((1024,), jnp.bfloat16)]


keep = model()
f = jax.jit(lambda x: x @ x)
y = f(keep[0]).block_until_ready()
jax.profiler.save_device_memory_profile(sys.argv[1])
live = jax.live_arrays()
print(
    json.dumps(
        {"jax": jax.__version__, "live": sum(one.nbytes for one in live), "count": len(live), "device": str(y.device)}
    )
)
