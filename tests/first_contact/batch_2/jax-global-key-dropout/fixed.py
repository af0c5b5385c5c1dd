import os

import jax
import jax.numpy as jnp
import optax

rng = jax.random.PRNGKey(42)


def next_rng():
    global rng
    rng, sub = jax.random.split(rng)
    return sub


def init_mlp(sizes):
    return [
        {"w": jax.random.normal(next_rng(), (m, n)) * jnp.sqrt(2.0 / m), "b": jnp.zeros(n)}
        for m, n in zip(sizes[:-1], sizes[1:])
    ]


def dropout(key, x, rate):
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / (1.0 - rate), 0.0)


def forward(params, x, train, key=None):
    for i, layer in enumerate(params[:-1]):
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
        if train:
            x = dropout(jax.random.fold_in(key, i), x, 0.2)
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_fn(params, x, y, key):
    logits = forward(params, x, train=True, key=key)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


tx = optax.adam(1e-3)


@jax.jit
def update(params, opt_state, x, y, key):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y, key)
    updates, opt_state = tx.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def main():
    params = init_mlp([8, 32, 32, 3])
    opt_state = tx.init(params)
    data = jax.random.normal(next_rng(), (256, 8))
    labels = jnp.argmax(data[:, :3], axis=1)
    for epoch in range(max(2, int(os.environ.get("STEPS", "40")) // 4)):
        order = jax.random.permutation(next_rng(), len(data))
        for batch in order.reshape(4, -1):
            params, opt_state, loss = update(params, opt_state, data[batch], labels[batch], next_rng())
    accuracy = (forward(params, data, train=False).argmax(1) == labels).mean()
    print(f"loss {float(loss):.3f} accuracy {float(accuracy):.2f}")


main()
