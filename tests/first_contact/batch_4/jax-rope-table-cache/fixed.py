import functools
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax


class LMConfig(NamedTuple):
    vocab: int = 48
    dim: int = 32
    heads: int = 4
    layers: int = 2
    length: int = 24


@functools.lru_cache(maxsize=None)
def rotary_table(length, dim, base=10000.0):
    inverse = base ** (-np.arange(0, dim, 2) / dim)
    angles = np.outer(np.arange(length), inverse).astype(np.float32)
    return np.cos(angles), np.sin(angles)


def apply_rotary(x):
    cos, sin = rotary_table(x.shape[-2], x.shape[-1])
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)


def init(key, cfg):
    keys = jax.random.split(key, 1 + 2 * cfg.layers)
    scale = cfg.dim**-0.5
    blocks = [
        {"qkv": scale * jax.random.normal(keys[2 * i + 1], (cfg.dim, 3 * cfg.dim)),
         "out": scale * jax.random.normal(keys[2 * i + 2], (cfg.dim, cfg.dim))}
        for i in range(cfg.layers)
    ]
    return {"embed": scale * jax.random.normal(keys[0], (cfg.vocab, cfg.dim)), "blocks": blocks}


def forward(params, tokens, cfg):
    x = params["embed"][tokens]
    b, t, d = x.shape
    mask = jnp.tril(jnp.ones((t, t), bool))
    for block in params["blocks"]:
        q, k, v = jnp.moveaxis((x @ block["qkv"]).reshape(b, t, 3, cfg.heads, -1), (2, 3), (0, 2))
        scores = apply_rotary(q) @ jnp.swapaxes(apply_rotary(k), -1, -2) * (d // cfg.heads) ** -0.5
        y = jax.nn.softmax(jnp.where(mask, scores, -1e9)) @ v
        x = x + jnp.swapaxes(y, 1, 2).reshape(b, t, d) @ block["out"]
    return x @ params["embed"].T


def loss_fn(params, tokens, cfg):
    logits = forward(params, tokens[:, :-1], cfg)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def make_steps(optimizer, cfg):
    @jax.jit
    def train_step(params, opt_state, tokens):
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens, cfg)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    @jax.jit
    def eval_step(params, tokens):
        return jnp.exp(loss_fn(params, tokens, cfg))

    return train_step, eval_step


def main():
    cfg = LMConfig()
    optimizer = optax.adamw(optax.linear_schedule(3e-3, 1e-4, 500))
    params = init(jax.random.key(0), cfg)
    opt_state = optimizer.init(params)
    train_step, eval_step = make_steps(optimizer, cfg)
    held_out = jax.random.randint(jax.random.key(9), (4, cfg.length), 0, cfg.vocab)
    steps = int(os.environ.get("STEPS", "40"))
    for step in range(1, steps + 1):
        start = jax.random.randint(jax.random.fold_in(jax.random.key(1), step), (8, 1), 0, cfg.vocab)
        tokens = (start + jnp.arange(cfg.length)) % cfg.vocab
        params, opt_state, loss = train_step(params, opt_state, tokens)
        if step % 20 == 0 or step == steps:
            print("step", step, "loss", round(float(loss), 3), "perplexity", round(float(eval_step(params, held_out)), 1))


if __name__ == "__main__":
    main()
