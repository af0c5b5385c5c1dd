import os

import jax
import jax.numpy as jnp
import numpy as np
import optax


def ndcg_at_k(scores, relevance, k=10):
    order = np.argsort(-scores, axis=-1)[:, :k]
    gains = np.take_along_axis(relevance, order, axis=-1)
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    ideal = np.sort(relevance, axis=-1)[:, ::-1][:, :k]
    return (gains * discount).sum(-1) / np.maximum((ideal * discount).sum(-1), 1e-9)


def recall_at_k(scores, relevance, k=10):
    _, top = jax.lax.top_k(scores, k)
    return jnp.take_along_axis(relevance, top, axis=-1).sum(-1) / relevance.sum(-1)


METRICS = {"recall": recall_at_k, "ndcg": ndcg_at_k}


class TwoTower:
    def __init__(self, users, items, dim=16):
        self.users, self.items, self.dim = users, items, dim

    def init(self, key):
        k1, k2 = jax.random.split(key)
        return {"user": 0.1 * jax.random.normal(k1, (self.users, self.dim)),
                "item": 0.1 * jax.random.normal(k2, (self.items, self.dim))}

    def scores(self, params, users):
        return params["user"][users] @ params["item"].T

    def loss(self, params, users, items):
        return optax.softmax_cross_entropy_with_integer_labels(self.scores(params, users), items).mean()


class Experiment:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.train_step = jax.jit(self._train_step)
        self.eval_step = jax.jit(self._eval_step)

    def _train_step(self, params, opt_state, users, items):
        loss, grads = jax.value_and_grad(self.model.loss)(params, users, items)
        updates, opt_state = self.optimizer.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, loss

    def _eval_step(self, params, users, relevance):
        scores = self.model.scores(params, users)
        return {name: metric(scores, relevance).mean() for name, metric in METRICS.items()}

    def run(self, clicks, relevance, steps):
        params = self.model.init(jax.random.key(0))
        opt_state = self.optimizer.init(params)
        rng = np.random.default_rng(0)
        for _ in range(steps):
            rows = clicks[rng.integers(0, len(clicks), 64)]
            params, opt_state, loss = self.train_step(params, opt_state, rows[:, 0], rows[:, 1])
        report = self.eval_step(params, np.arange(self.model.users), relevance)
        return {"loss": loss, **report}


def main():
    users, items = 60, 80
    taste = np.random.default_rng(1).random((users, items)) < 0.1
    taste[:, 0] = True
    clicks = np.argwhere(taste)
    experiment = Experiment(TwoTower(users, items), optax.adam(5e-2))
    report = experiment.run(clicks, taste.astype(np.float32), int(os.environ.get("STEPS", "40")))
    print({name: round(float(value), 3) for name, value in report.items()})


if __name__ == "__main__":
    main()
