from dataclasses import dataclass
from functools import partial
import os

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclass
class BufferState:
    obs: jax.Array
    reward: jax.Array
    position: jax.Array
    size: jax.Array


class UniformReplay:
    def __init__(self, capacity, obs_dim):
        self.capacity = capacity
        self.obs_dim = obs_dim

    def init(self):
        zero = jnp.zeros((), jnp.int32)
        return BufferState(jnp.zeros((self.capacity, self.obs_dim)), jnp.zeros(self.capacity), zero, zero + 0)

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def add(self, state, obs, reward):
        at = state.position
        return BufferState(
            obs=state.obs.at[at].set(obs),
            reward=state.reward.at[at].set(reward),
            position=(at + 1) % self.capacity,
            size=jnp.minimum(state.size + 1, self.capacity),
        )

    @partial(jax.jit, static_argnums=(0, 3))
    def sample(self, state, key, n):
        index = jax.random.randint(key, (n,), 0, state.size)
        return state.obs[index], state.reward[index]


def collect(replay, buffer, weights, key, n):
    total = 0.0
    for k in jax.random.split(key, n):
        obs = jax.random.normal(k, (replay.obs_dim,))
        reward = jnp.tanh(obs @ weights)
        buffer = replay.add(buffer, obs, reward)
        total += float(reward)
    return buffer, total / n


@jax.jit
def fit(weights, obs, reward):
    grads = jax.grad(lambda w: jnp.mean((obs @ w - reward) ** 2))(weights)
    return weights - 0.05 * grads


replay = UniformReplay(capacity=64, obs_dim=3)
buffer = replay.init()
weights = jnp.array([1.0, -1.0, 0.5])
key = jax.random.key(5)
for iteration in range(int(os.environ.get("STEPS", "40"))):
    key, act_key, sample_key = jax.random.split(key, 3)
    buffer, mean_reward = collect(replay, buffer, weights, act_key, 4)
    obs, reward = replay.sample(buffer, sample_key, 16)
    weights = fit(weights, obs, reward)
print("mean reward", round(mean_reward, 3), "weights", weights)
