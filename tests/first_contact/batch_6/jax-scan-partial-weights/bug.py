"""Representations of peptides from a recurrent network, which is adapted to each new batch (evotuning)."""

import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

AMINO_ACIDS = 20


def init_rnn(key, hidden=24, embed=8):
    names = {"table": (AMINO_ACIDS, embed), "wx": (embed, hidden), "wh": (hidden, hidden)}
    return {
        name: jax.random.normal(k, shape) / shape[0] ** 0.5
        for (name, shape), k in zip(names.items(), jax.random.split(key, len(names)))
    }


def rnn_step(params, h, x_t):
    h = jnp.tanh(x_t @ params["wx"] + h @ params["wh"])
    return h, h


def rnn_batch(params, tokens):
    embedded = jnp.swapaxes(params["table"][tokens], 0, 1)
    start = jnp.zeros((tokens.shape[0], params["wh"].shape[0]))
    step = partial(rnn_step, params)
    _, outputs = lax.scan(step, start, embedded)
    return outputs.mean(axis=0)


@jax.jit
def adapt_table(params, tokens, representation, rate=1e-2):
    def spread(table):
        pooled = table[tokens].mean(axis=1) @ params["wx"]
        return jnp.mean((pooled - representation) ** 2)

    return {**params, "table": params["table"] - rate * jax.grad(spread)(params["table"])}


class PeptideStream:
    def __init__(self, length=12, batch_size=16, seed=0):
        self.rng = np.random.default_rng(seed)
        self.shape = (batch_size, length)

    def next_batch(self):
        return jnp.asarray(self.rng.integers(0, AMINO_ACIDS, self.shape))


def main():
    params = init_rnn(jax.random.key(0))
    stream = PeptideStream()
    average = 0.0
    for _ in range(int(os.environ.get("STEPS", "40"))):
        tokens = stream.next_batch()
        representation = rnn_batch(params, tokens)
        params = adapt_table(params, tokens, representation)
        average = 0.9 * average + 0.1 * float(jnp.abs(representation).mean())
    print("mean activation", round(average, 4))


if __name__ == "__main__":
    main()
