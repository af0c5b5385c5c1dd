import dataclasses
import os

import jax
import jax.numpy as jnp


@dataclasses.dataclass
class Diagnostics:
    every: int = 1
    kinetic: list = dataclasses.field(default_factory=list)
    drift: list = dataclasses.field(default_factory=list)

    def observe(self, pos, vel):
        self.kinetic.append(0.5 * jnp.sum(vel**2))
        self.drift.append(jnp.linalg.norm(pos.mean(0)))


def acceleration(pos, softening=0.1):
    delta = pos[:, None] - pos[None]
    dist2 = jnp.sum(delta**2, -1, keepdims=True) + softening**2
    return -jnp.sum(delta / dist2**1.5, axis=1)


class Simulation:
    def __init__(self, key, bodies=16, dt=0.01):
        k1, k2 = jax.random.split(key)
        self.state = (jax.random.normal(k1, (bodies, 3)), 0.1 * jax.random.normal(k2, (bodies, 3)))
        self.dt = dt
        self.diagnostics = Diagnostics()

    def leapfrog(self, state, _):
        pos, vel = state
        vel = vel + 0.5 * self.dt * acceleration(pos)
        pos = pos + self.dt * vel
        vel = vel + 0.5 * self.dt * acceleration(pos)
        return (pos, vel), 0.5 * jnp.sum(vel**2)

    def run(self, steps):
        self.state, self.energy = jax.lax.scan(self.leapfrog, self.state, None, length=steps)
        return self.state


sim = Simulation(jax.random.PRNGKey(3))
pos, vel = sim.run(int(os.environ.get("STEPS", "40")))
energy = sim.energy
print("kinetic energy", energy.shape, float(energy[-1]), "mean radius", float(jnp.linalg.norm(pos, axis=1).mean()))
