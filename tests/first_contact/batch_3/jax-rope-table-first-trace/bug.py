import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

_freqs_cis_cache = {}


def precompute_freqs_cis(head_size, length, theta=10_000.0):
    freqs = 1.0 / theta ** (jnp.arange(0.0, head_size, 2.0) / head_size)
    angles = jnp.outer(jnp.arange(float(length)), freqs)
    return jnp.cos(angles), jnp.sin(angles)


def freqs_cis_for(head_size, length):
    key = (head_size, length)
    if key not in _freqs_cis_cache:
        _freqs_cis_cache[key] = precompute_freqs_cis(head_size, length)
    return _freqs_cis_cache[key]


def rotate(x):
    cos, sin = freqs_cis_for(x.shape[-1], x.shape[-2])
    even, odd = x[..., ::2], x[..., 1::2]
    return jnp.concatenate([even * cos - odd * sin, even * sin + odd * cos], axis=-1)


class Attention(NamedTuple):
    wq: jax.Array
    wk: jax.Array
    wv: jax.Array
    out: jax.Array

    @classmethod
    def init(cls, key, dim, vocab):
        keys = jax.random.split(key, 4)
        wq, wk, wv = (jax.random.normal(k, (vocab, dim)) * 0.1 for k in keys[:3])
        return cls(wq, wk, wv, jax.random.normal(keys[3], (dim, vocab)) * 0.1)

    def __call__(self, tokens):
        q, k, v = rotate(self.wq[tokens]), rotate(self.wk[tokens]), self.wv[tokens]
        scores = q @ jnp.swapaxes(k, -1, -2) / jnp.sqrt(q.shape[-1])
        return jax.nn.softmax(scores) @ v @ self.out


def loss_fn(model, tokens):
    logits = model(tokens[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


optim = optax.adam(1e-2)


@jax.jit
def train_step(model, opt_state, tokens):
    loss, grads = jax.value_and_grad(loss_fn)(model, tokens)
    updates, opt_state = optim.update(grads, opt_state)
    return optax.apply_updates(model, updates), opt_state, loss


eval_step = jax.jit(loss_fn)


def main():
    key = jax.random.key(0)
    model = Attention.init(key, dim=16, vocab=32)
    opt_state = optim.init(model)
    tokens = jax.random.randint(key, (16, 25), 0, 32)
    for step in range(int(os.environ.get("STEPS", "40"))):
        model, opt_state, loss = train_step(model, opt_state, tokens)
    print("train", loss, "valid", eval_step(model, tokens[:4]))


main()
