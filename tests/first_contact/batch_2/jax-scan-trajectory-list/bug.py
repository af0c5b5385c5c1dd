"""Leapfrog integration of a few bodies; energy drift along the way."""
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

STEPS = int(os.environ.get("STEPS", "40"))


class Bodies(NamedTuple):
    position: jax.Array
    velocity: jax.Array
    mass: jax.Array


def acceleration(position, mass):
    delta = position[None] - position[:, None]
    distance = jnp.sum(delta**2, -1) + 0.05
    return jnp.sum(mass[None, :, None] * delta / distance[..., None] ** 1.5, 1)


def energy(bodies: Bodies):
    return 0.5 * jnp.sum(bodies.mass * jnp.sum(bodies.velocity**2, -1))


def leapfrog(bodies, dt):
    half = bodies.velocity + 0.5 * dt * acceleration(bodies.position, bodies.mass)
    position = bodies.position + dt * half
    velocity = half + 0.5 * dt * acceleration(position, bodies.mass)
    return bodies._replace(position=position, velocity=velocity)


def simulate(bodies, n_steps, dt=0.01):
    energies = []

    def body(carry, _):
        carry = leapfrog(carry, dt)
        energies.append(energy(carry))
        return carry, None

    final, _ = lax.scan(body, bodies, None, length=n_steps)
    return final, energies


def main():
    key_x, key_v = jax.random.split(jax.random.key(7))
    bodies = Bodies(jax.random.normal(key_x, (5, 3)), 0.1 * jax.random.normal(key_v, (5, 3)), jnp.ones(5))
    final, energies = simulate(bodies, STEPS)
    drift = jnp.max(jnp.stack(energies)) - jnp.min(jnp.stack(energies))
    print("final energy", float(energy(final)), "drift", float(drift))


if __name__ == "__main__":
    main()
