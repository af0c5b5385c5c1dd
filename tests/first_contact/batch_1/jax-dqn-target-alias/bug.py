import functools
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax


class Transition(NamedTuple):
    obs: jax.Array
    action: jax.Array
    reward: jax.Array
    next_obs: jax.Array


def q_network(params, obs):
    return jnp.tanh(obs @ params["w1"] + params["b1"]) @ params["w2"]


def init(key, obs_dim=4, hidden=32, actions=3):
    k1, k2 = jax.random.split(key)
    return {
        "w1": jax.random.normal(k1, (obs_dim, hidden)) * 0.5,
        "b1": jnp.zeros(hidden),
        "w2": jax.random.normal(k2, (hidden, actions)) * 0.1,
    }


optimizer = optax.adam(1e-3)


@functools.partial(jax.jit, donate_argnums=(0, 2))
def train_step(params, target_params, opt_state, batch):
    def loss_fn(p):
        q = jnp.take_along_axis(q_network(p, batch.obs), batch.action[:, None], 1)[:, 0]
        target = batch.reward + 0.99 * q_network(target_params, batch.next_obs).max(1)
        return jnp.mean((q - jax.lax.stop_gradient(target)) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


def sample(key, n=32):
    ks = jax.random.split(key, 4)
    return Transition(jax.random.normal(ks[0], (n, 4)), jax.random.randint(ks[1], (n,), 0, 3), jax.random.uniform(ks[2], (n,)), jax.random.normal(ks[3], (n, 4)))


def main():
    key = jax.random.key(0)
    params = init(key)
    target_params = params
    opt_state = optimizer.init(params)
    for step in range(int(os.environ.get("STEPS", "40"))):
        key, sub = jax.random.split(key)
        params, opt_state, loss = train_step(params, target_params, opt_state, sample(sub))
        if step % 10 == 9:
            target_params = params
    print("loss", float(loss))


if __name__ == "__main__":
    main()
