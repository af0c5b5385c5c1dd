import os
import sys

import jax
import jax.numpy as jnp

VOCAB, DIM = 64, 32


def init(seed):
    k1, k2 = jax.random.split(jax.random.key(seed))
    return {
        "embed": jax.random.normal(k1, (VOCAB, DIM)) * DIM**-0.5,
        "qkv": jax.random.normal(k2, (DIM, 3 * DIM)) * DIM**-0.5,
    }


@jax.jit
def next_logits(params, tokens, length):
    x = params["embed"][tokens]
    q, k, v = jnp.split(x @ params["qkv"], 3, -1)
    scores = q @ k.T * DIM**-0.5
    scores = jnp.where(jnp.tril(jnp.ones_like(scores, bool)), scores, -jnp.inf)
    x = x + jax.nn.softmax(scores) @ v
    return x[length - 1] @ params["embed"].T


@jax.jit
def place(tokens, position, token):
    return tokens.at[position].set(token)


class Sampler:
    def __init__(self, temperature=0.8, top_k=10):
        self.temperature = temperature
        self.top_k = top_k

    def __call__(self, key, logits):
        values, indices = jax.lax.top_k(logits / self.temperature, self.top_k)
        return indices[jax.random.categorical(key, values)]


def generate(params, prompt, n, sampler, key):
    length = len(prompt)
    tokens = jnp.zeros(length + n, jnp.int32).at[:length].set(jnp.asarray(prompt))
    for i in range(n):
        token = sampler(jax.random.fold_in(key, i), next_logits(params, tokens, jnp.asarray(length + i)))
        tokens = place(tokens, jnp.asarray(length + i), token)
        yield int(token)


def detokenize(stream, out):
    count = 0
    for token in stream:
        out.write(chr(ord("0") + token))
        count += 1
    out.write("\n")
    return count


def main():
    params = init(0)
    prompt = [3, 14, 15, 9, 2, 6]
    stream = generate(params, prompt, int(os.environ.get("STEPS", "40")), Sampler(), jax.random.key(1))
    print(detokenize(stream, sys.stdout), "tokens")


if __name__ == "__main__":
    main()
