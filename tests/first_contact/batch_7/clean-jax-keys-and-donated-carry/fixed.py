import os
from collections import deque
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax


@partial(jax.tree_util.register_dataclass, data_fields=["params", "opt_state", "step"], meta_fields=["dropout"])
@dataclass
class Carry:
    params: dict
    opt_state: optax.OptState
    step: jax.Array
    dropout: float


def keys(seed):
    key = jax.random.key(seed)
    while True:
        key, subkey = jax.random.split(key)
        yield subkey


def forward(params, x, key, dropout):
    outputs = []
    for n, name in enumerate(sorted(params)):
        x = jnp.tanh(x @ params[name])
        if dropout:
            x = x * jax.random.bernoulli(jax.random.fold_in(key, n), 1 - dropout, x.shape) / (1 - dropout)
        outputs.append(x)
    return sum(output.mean(-1) for output in outputs), [jnp.mean(jnp.abs(output)) for output in outputs]


class Trainer:
    def __init__(self, learning_rate):
        self.optimizer = optax.adam(learning_rate)
        self.traces = []
        self.train_step = jax.jit(self._train_step, donate_argnames="carry")

    def init(self, key, width=24, layers=3, dropout=0.1):
        params = {
            f"w{n}": jax.random.normal(k, (width, width)) / width**0.5 for n, k in enumerate(jax.random.split(key, layers))
        }
        return Carry(params, self.optimizer.init(params), jnp.zeros((), jnp.int32), dropout)

    def _train_step(self, carry, x, y, key):
        self.traces.append(x.shape)  # runs once for each shape of a batch

        def loss_fn(params):
            prediction, sizes = forward(params, x, key, carry.dropout)
            return jnp.mean((prediction - y) ** 2), sizes

        (loss, sizes), grads = jax.value_and_grad(loss_fn, has_aux=True)(carry.params)
        updates, opt_state = self.optimizer.update(grads, carry.opt_state)
        params = optax.apply_updates(carry.params, updates)
        return Carry(params, opt_state, carry.step + 1, carry.dropout), {"loss": loss, "sizes": sizes}


def main(steps):
    rng, stream = np.random.default_rng(0), keys(0)
    trainer = Trainer(3e-3)
    carry = trainer.init(next(stream))
    window, curve, best = deque(maxlen=8), [], (np.inf, None)
    for n in range(steps):
        size = 32 if n % 4 else 16
        x = rng.normal(size=(size, 24)).astype(np.float32)
        carry, metrics = trainer.train_step(carry, x, np.sin(x[:, 0]), next(stream))
        window.append(metrics)
        if n % 8 == 7:
            loss = float(np.mean([m["loss"] for m in window]))
            curve.append(loss)
            if loss < best[0]:
                best = (loss, jax.tree.map(np.array, carry.params))
    final = float(forward(carry.params, np.ones((1, 24), np.float32), next(stream), 0.0)[0][0])
    print(f"{int(carry.step)} steps, {len(trainer.traces)} traces, curve {np.round(curve, 3)}, final {final:.3f}")
    if best[1] is not None:
        print("best", round(best[0], 3), {name: value.shape for name, value in best[1].items()})


if __name__ == "__main__":
    main(int(os.environ.get("STEPS", "40")))
