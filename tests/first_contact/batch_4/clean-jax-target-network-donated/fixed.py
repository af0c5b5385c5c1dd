import functools
import os
from collections import Counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

traces = Counter()
optimizer = optax.adam(1e-3)


class Learner(NamedTuple):
    online: dict
    target: dict
    opt_state: optax.OptState
    steps: jax.Array


@functools.lru_cache(maxsize=8)
def support(atoms, low=-10.0, high=10.0):
    return np.linspace(low, high, atoms, dtype=np.float32)


def logits(params, obs, atoms):
    traces["logits"] += 1
    h = jax.nn.relu(obs @ params["w1"] + params["b1"])
    return (h @ params["w2"]).reshape(*obs.shape[:-1], -1, atoms)


def values(params, obs, atoms):
    return (jax.nn.softmax(logits(params, obs, atoms)) * support(atoms)).sum(-1)


def loss_fn(params, target, batch, atoms):
    obs, action, reward, following = batch
    bootstrap = reward + 0.97 * values(target, following, atoms).max(-1)
    chosen = jnp.take_along_axis(values(params, obs, atoms), action[:, None], 1).squeeze(1)
    return optax.huber_loss(chosen, bootstrap).mean()


@functools.partial(jax.jit, static_argnames=("atoms",), donate_argnums=(0,))
def learn(state, batch, atoms):
    loss, grads = jax.value_and_grad(loss_fn)(state.online, state.target, batch, atoms)
    updates, opt_state = optimizer.update(grads, state.opt_state)
    online = optax.apply_updates(state.online, updates)
    target = optax.periodic_update(online, state.target, state.steps, 10)
    return Learner(online, target, opt_state, state.steps + 1), loss


def create(key, inputs=6, actions=3, atoms=21, hidden=64):
    k1, k2 = jax.random.split(key)
    online = {"w1": 0.3 * jax.random.normal(k1, (inputs, hidden)), "b1": jnp.zeros(hidden),
              "w2": 0.1 * jax.random.normal(k2, (hidden, actions * atoms))}
    return Learner(online, jax.tree.map(jnp.copy, online), optimizer.init(online), jnp.zeros((), jnp.int32))


def make_actor(atoms):
    greedy = jax.jit(lambda params, obs: values(params, obs, atoms).argmax(-1))
    frozen = None

    def refresh(params):
        nonlocal frozen
        frozen = jax.tree.map(jnp.copy, params)

    def act(obs):
        return np.asarray(greedy(frozen, obs))

    return refresh, act


def main():
    atoms, rng = 21, np.random.default_rng(0)
    state = create(jax.random.key(0), atoms=atoms)
    refresh, act = make_actor(atoms)
    refresh(state.online)
    obs, losses = rng.normal(size=(32, 6)).astype(np.float32), []
    for step in range(int(os.environ.get("STEPS", "40"))):
        action = act(obs)
        following = (0.9 * obs + 0.3 * rng.normal(size=obs.shape)).astype(np.float32)
        reward = (obs[np.arange(32), action] > 0).astype(np.float32)
        state, loss = learn(state, (obs, action, reward, following), atoms)
        losses.append(float(loss))
        obs = following
        if step % 8 == 0:
            refresh(state.online)
    print("loss", round(np.mean(losses[-10:]).item(), 3), "traces", traces["logits"] <= 4, "steps", int(state.steps))


if __name__ == "__main__":
    main()
