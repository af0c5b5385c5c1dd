"""Serves a classifier and takes over new adapter weights while it runs."""
import os

import jax
import jax.numpy as jnp


def init_params(key, vocab=500, dim=64, classes=4):
    k_embed, k_head = jax.random.split(key)
    return {
        "embed": {"table": jax.random.normal(k_embed, (vocab, dim))},
        "adapter": {"down": jnp.zeros((dim, 8)), "up": jnp.zeros((8, dim))},
        "head": {"kernel": jax.random.normal(k_head, (dim, classes)) / dim**0.5, "bias": jnp.zeros(classes)},
    }


@jax.jit
def forward(params, tokens):
    h = params["embed"]["table"][tokens].mean(axis=1)
    h = h + jax.nn.gelu(h @ params["adapter"]["down"]) @ params["adapter"]["up"]
    return h @ params["head"]["kernel"] + params["head"]["bias"]


class Server:
    def __init__(self, params):
        self.params = params
        self.version = 0

    def predict(self, tokens):
        return jnp.argmax(forward(self.params, tokens), axis=-1)

    def swap(self, update):
        previous, self.params = self.params, {**self.params, **update}
        for leaf in jax.tree.leaves({name: previous[name] for name in update}):
            leaf.delete()
        self.version += 1


def trained_adapter(key, dim=64):
    k1, k2 = jax.random.split(key)
    return {"adapter": {"down": jax.random.normal(k1, (dim, 8)) * 0.1, "up": jax.random.normal(k2, (8, dim)) * 0.1}}


def main():
    key = jax.random.key(7)
    server = Server(init_params(key))
    counts = jnp.zeros(4, jnp.int32)
    for request in range(int(os.environ.get("STEPS", "40"))):
        key, k_tokens, k_adapter = jax.random.split(key, 3)
        labels = server.predict(jax.random.randint(k_tokens, (8, 16), 0, 500))
        counts = counts + jnp.bincount(labels, length=4)
        if request % 3 == 2:
            server.swap(trained_adapter(k_adapter))
    print("versions", server.version, "labels", counts)


if __name__ == "__main__":
    main()
