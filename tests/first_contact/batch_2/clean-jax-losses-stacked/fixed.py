from __future__ import annotations

import dataclasses
import functools
import os

import jax
import jax.numpy as jnp
import optax


@functools.partial(jax.tree_util.register_dataclass, data_fields=["step", "params", "opt_state"], meta_fields=["tx"])
@dataclasses.dataclass(frozen=True)
class TrainState:
    step: jax.Array
    params: dict
    opt_state: optax.OptState
    tx: optax.GradientTransformation

    @classmethod
    def create(cls, params, tx):
        return cls(jnp.zeros((), jnp.int32), params, tx.init(params), tx)

    def apply_gradients(self, grads):
        updates, opt_state = self.tx.update(grads, self.opt_state, self.params)
        return dataclasses.replace(self, step=self.step + 1, params=optax.apply_updates(self.params, updates), opt_state=opt_state)


def predict(params, x):
    return jnp.tanh(x @ params["hidden"]) @ params["out"]


@functools.partial(jax.jit, donate_argnames="state")
def train_step(state, batch):
    def loss_fn(params):
        return optax.huber_loss(predict(params, batch["x"]), batch["y"]).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads), {"loss": loss, "norm": optax.global_norm(grads)}


def batches(key, n, size=32):
    for k in jax.random.split(key, n):
        x = jax.random.normal(k, (size, 5))
        yield {"x": x, "y": jnp.sin(x[:, :1])}


def main():
    k1, k2, data_key = jax.random.split(jax.random.key(0), 3)
    params = {"hidden": jax.random.normal(k1, (5, 32)) * 0.4, "out": jax.random.normal(k2, (32, 1)) * 0.2}
    initial_norm = float(optax.global_norm(params))
    state = TrainState.create(params, optax.adam(1e-2))
    del params
    best, best_params = float("inf"), None
    per_epoch = max(1, int(os.environ.get("STEPS", "40")) // 4)
    for epoch in range(4):
        metrics = []
        for batch in batches(jax.random.fold_in(data_key, epoch), per_epoch):
            state, m = train_step(state, batch)
            metrics.append(m)
        means = jax.tree.map(lambda *v: float(jnp.stack(v).mean()), *metrics)
        if means["loss"] < best:
            best, best_params = means["loss"], jax.tree.map(jnp.copy, state.params)
    print("best", round(best, 4), "steps", int(state.step), "moved", abs(float(optax.global_norm(best_params)) - initial_norm) > 0)


if __name__ == "__main__":
    main()
