import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


class Schedule:
    def __init__(self, start, end, steps):
        self.start, self.end, self.steps = start, end, steps

    def __call__(self, t):
        return max(self.end, self.start + (self.end - self.start) * t / self.steps)


@partial(jax.jit, static_argnames=("epsilon",))
def select_action(key, q_table, observation, epsilon):
    explore_key, action_key = jax.random.split(key)
    greedy = jnp.argmax(q_table[observation])
    random_action = jax.random.randint(action_key, (), 0, q_table.shape[1])
    return jnp.where(jax.random.uniform(explore_key) < epsilon, random_action, greedy)


@jax.jit
def q_update(q_table, obs, action, reward, next_obs, lr=0.1, gamma=0.95):
    target = reward + gamma * jnp.max(q_table[next_obs])
    return q_table.at[obs, action].add(lr * (target - q_table[obs, action]))


class GridWorld:
    def __init__(self, size=12):
        self.size = size
        self.position = 0

    def step(self, action):
        self.position = int(np.clip(self.position + (1 if action == 1 else -1), 0, self.size - 1))
        return self.position, float(self.position == self.size - 1)


def train(total_timesteps, seed=0):
    env, key = GridWorld(), jax.random.key(seed)
    q_table = jnp.zeros((env.size, 2))
    epsilon = Schedule(1.0, 0.05, total_timesteps)
    obs = env.position
    for t in range(total_timesteps):
        key, sub = jax.random.split(key)
        action = int(select_action(sub, q_table, obs, epsilon=epsilon(t)))
        next_obs, reward = env.step(action)
        q_table = q_update(q_table, obs, action, reward, next_obs)
        obs = next_obs
    return q_table


if __name__ == "__main__":
    print("value", float(train(int(os.environ.get("STEPS", "40"))).max()))
