import os
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp


@jax.jit
def init_policy(key):
    k1, k2 = jax.random.split(key)
    return {"w1": jax.random.normal(k1, (6, 64)) / 6**0.5, "w2": jax.random.normal(k2, (64, 4)) / 8}


def action_probs(params, obs):
    return jax.nn.softmax(jnp.tanh(obs @ params["w1"]) @ params["w2"])


def coordination(ego, partner, obs):
    """How often would the two choose the same action?"""
    return jnp.sum(action_probs(ego, obs) * action_probs(partner, obs), axis=-1).mean()


@dataclass
class HeldoutEvaluator:
    """Scores the agent with each partner that has joined so far."""

    partners: dict = field(default_factory=dict)

    def add_partner(self, name, partner_params):
        @jax.jit
        def run_episodes(ego_params, obs):
            return coordination(ego_params, partner_params, obs)

        self.partners[name] = run_episodes

    def evaluate(self, ego_params, obs):
        scores = {name: float(run(ego_params, obs)) for name, run in self.partners.items()}
        return min(scores.values()), sum(scores.values()) / len(scores)


@jax.jit
def improve(ego, partner, obs, rate=0.5):
    score, grads = jax.value_and_grad(coordination)(ego, partner, obs)
    return jax.tree.map(lambda p, g: p + rate * g, ego, grads), score


def main():
    evaluator = HeldoutEvaluator()
    ego = init_policy(jax.random.key(0))
    for generation in range(int(os.environ.get("STEPS", "40"))):
        key = jax.random.fold_in(jax.random.key(1), generation)
        obs = jax.random.normal(key, (64, 6))
        partner = init_policy(key)
        for _ in range(5):
            ego, _ = improve(ego, partner, obs)
        evaluator.add_partner(f"generation-{generation}", partner)
        worst, mean = evaluator.evaluate(ego, obs)
    print(f"coordination with held-out partners: worst {worst:.3f}, mean {mean:.3f}")


if __name__ == "__main__":
    main()
