import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np

VOCAB = "abcdefghijklmnopqrstuvwxyz ."


def init(key, dim=32):
    names = ("embed", "query", "key", "value", "out")
    shapes = ((len(VOCAB), dim), (dim, dim), (dim, dim), (dim, dim), (dim, len(VOCAB)))
    return {n: jax.random.normal(k, s) * 0.2 for n, k, s in zip(names, jax.random.split(key, 5), shapes)}


@jax.jit
def next_token_logits(params, tokens, last):
    h = params["embed"][tokens]
    q, k, v = (h @ params[name] for name in ("query", "key", "value"))
    scores = jnp.einsum("btd,bsd->bts", q, k) / q.shape[-1] ** 0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    h = h + jax.nn.softmax(jnp.where(causal, scores, -1e9)) @ v
    return (h @ params["out"])[:, last]


def generate(params, prompt, length, temperature, seed=0):
    rng = np.random.default_rng(seed)
    tokens = [VOCAB.index(c) for c in prompt]
    context = np.zeros((1, len(tokens) + length), dtype="int32")
    for _ in range(length):
        context[0, : len(tokens)] = tokens
        logits = next_token_logits(params, jnp.array(context), len(tokens) - 1)[0]
        p = np.asarray(jax.nn.softmax(logits / temperature), dtype="float64")
        tokens.append(int(rng.choice(len(VOCAB), p=p / p.sum())))
    return "".join(VOCAB[t] for t in tokens)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompt", default="once upon a time ")
    parser.add_argument("--length", type=int, default=int(os.environ.get("STEPS", "40")))
    parser.add_argument("--temperature", type=float, default=0.8)
    args = parser.parse_args()
    print(generate(init(jax.random.key(3)), args.prompt, args.length, args.temperature))
