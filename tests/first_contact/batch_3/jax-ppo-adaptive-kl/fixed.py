import os
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import optax


@dataclass
class PPOLearner:
    obs_dim: int = 4
    n_actions: int = 3
    target_kl: float = 0.01
    beta: float = 1.0
    clip: float = 0.2
    params: dict = field(default_factory=dict)

    def __post_init__(self):
        k1, k2 = jax.random.split(jax.random.key(1))
        self.params = {
            "hidden": jax.random.normal(k1, (self.obs_dim, 32)) / 2.0,
            "logits": jax.random.normal(k2, (32, self.n_actions)) * 0.01,
        }
        self.optimizer = optax.adam(2e-2)
        self.opt_state = self.optimizer.init(self.params)

    def log_probs(self, params, obs):
        return jax.nn.log_softmax(jnp.tanh(obs @ params["hidden"]) @ params["logits"])

    def update(self, batch):
        old = jax.nn.log_softmax(batch["logits"])
        info = {}

        def surrogate(params):
            new = self.log_probs(params, batch["obs"])
            ratio = jnp.exp(jnp.take_along_axis(new - old, batch["action"][:, None], 1)[:, 0])
            gain = jnp.minimum(ratio * batch["adv"], jnp.clip(ratio, 1 - self.clip, 1 + self.clip) * batch["adv"])
            kl = jnp.sum(jnp.exp(old) * (old - new), axis=1).mean()
            return -gain.mean() + self.beta * kl, kl

        (loss, info["kl"]), grads = jax.value_and_grad(surrogate, has_aux=True)(self.params)
        updates, self.opt_state = self.optimizer.update(grads, self.opt_state)
        self.params = optax.apply_updates(self.params, updates)
        info["loss"] = loss
        self.beta = jnp.where(info["kl"] > 1.5 * self.target_kl, self.beta * 2, jnp.maximum(self.beta / 1.5, 0.01))
        return info


def collect(learner, rng, size=64):
    obs = rng.normal(size=(size, learner.obs_dim)).astype("float32")
    logits = np.asarray(learner.log_probs(learner.params, obs))
    action = np.array([rng.choice(learner.n_actions, p=p / p.sum()) for p in np.exp(logits.astype("float64"))])
    adv = (action == obs[:, : learner.n_actions].argmax(1)).astype("float32")
    return {"obs": obs, "logits": logits, "action": action, "adv": adv - adv.mean()}


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    learner = PPOLearner()
    for iteration in range(int(os.environ.get("STEPS", "40"))):
        batch = collect(learner, rng)
        for _ in range(3):
            info = learner.update(batch)
    print({name: float(value) for name, value in info.items()}, "beta", float(learner.beta))
