import os
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class EpisodeBatch(NamedTuple):
    obs: torch.Tensor  # (time, agents, features)
    actions: torch.Tensor
    log_probs: torch.Tensor
    rewards: torch.Tensor


class MatrixGame:
    """Two agents are rewarded for matching the sign of the shared observation."""

    def __init__(self, length=16, agents=2, features=3, seed=0):
        self.rng = np.random.default_rng(seed)
        self.shape = (length, agents, features)

    def observe(self):
        shared = self.rng.normal(size=(self.shape[0], 1, self.shape[2]))
        return torch.tensor(np.broadcast_to(shared, self.shape).copy(), dtype=torch.float32)

    def reward(self, obs, actions):
        return (actions == (obs[..., 0] > 0).long()).float().mean(1)


def mlp(inputs, outputs, hidden=32):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


class MAPPOLearner:
    def __init__(self, features=3, n_actions=2, mini_epochs=4, eps_clip=0.2):
        self.actor = mlp(features, n_actions)
        self.critic = mlp(features, 1)
        self.mini_epochs, self.eps_clip = mini_epochs, eps_clip
        params = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(params, lr=5e-3)

    @torch.no_grad()
    def collect(self, game):
        obs = game.observe()
        policy = Categorical(logits=self.actor(obs))
        actions = policy.sample()
        return EpisodeBatch(obs, actions, policy.log_prob(actions), game.reward(obs, actions))

    def train(self, batch):
        with torch.no_grad():
            values = self.critic(batch.obs).squeeze(-1)
        returns = batch.rewards.unsqueeze(1).expand_as(values)
        advantages = returns - values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
        for _ in range(self.mini_epochs):
            log_probs = Categorical(logits=self.actor(batch.obs)).log_prob(batch.actions)
            ratios = torch.exp(log_probs - batch.log_probs)
            clipped = torch.clamp(ratios, 1 - self.eps_clip, 1 + self.eps_clip)
            actor_loss = -torch.min(ratios * advantages, clipped * advantages).mean()
            critic_loss = (self.critic(batch.obs).squeeze(-1) - returns).pow(2).mean()
            self.optimizer.zero_grad()
            (actor_loss + 0.5 * critic_loss).backward()
            self.optimizer.step()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    game, learner = MatrixGame(), MAPPOLearner()
    rewards = []
    for _ in range(int(os.environ.get("STEPS", "40"))):
        batch = learner.collect(game)
        learner.train(batch)
        rewards.append(batch.rewards.mean().item())
    print("mean reward of the last episodes", round(sum(rewards[-5:]) / len(rewards[-5:]), 2))


if __name__ == "__main__":
    main()
