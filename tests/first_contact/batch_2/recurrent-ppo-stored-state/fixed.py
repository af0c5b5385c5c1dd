from __future__ import annotations

import os
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.distributions import Categorical

STEPS = int(os.environ.get("STEPS", "40"))
HORIZON = 8


@dataclass
class Experience:
    obs: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    logprobs: list = field(default_factory=list)
    rewards: list = field(default_factory=list)
    states: list = field(default_factory=list)

    def store(self, obs, action, logprob, reward, state):
        self.obs.append(obs)
        self.actions.append(action)
        self.logprobs.append(logprob)
        self.rewards.append(reward)
        self.states.append(state)


class Policy(nn.Module):
    def __init__(self, obs_dim=6, hidden=32, n_actions=3):
        super().__init__()
        self.encoder = nn.Linear(obs_dim, hidden)
        self.core = nn.LSTMCell(hidden, hidden)
        self.actor = nn.Linear(hidden, n_actions)
        self.critic = nn.Linear(hidden, 1)

    def forward(self, obs, state):
        h, c = self.core(torch.relu(self.encoder(obs)), state)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1), (h, c)


class Rollouts:
    def __init__(self, policy, n_envs=4):
        self.policy = policy
        self.state = (torch.zeros(n_envs, 32), torch.zeros(n_envs, 32))
        self.obs = torch.randn(n_envs, 6)

    def collect(self) -> Experience:
        experience = Experience()
        for _ in range(HORIZON):
            before = self.state
            dist, _, (h, c) = self.policy(self.obs, before)
            self.state = (h.detach(), c.detach())
            action = dist.sample()
            reward = (self.obs[:, 0] > 0).float() * (action == 1)
            experience.store(self.obs, action, dist.log_prob(action).detach(), reward, before)
            self.obs = torch.randn_like(self.obs)
        return experience


def update(policy, optimizer, experience, clip=0.2):
    advantages = torch.stack(experience.rewards)
    advantages = advantages - advantages.mean()
    for t in range(HORIZON):
        dist, value, _ = policy(experience.obs[t], experience.states[t])
        ratio = (dist.log_prob(experience.actions[t]) - experience.logprobs[t]).exp()
        surrogate = torch.min(ratio * advantages[t], ratio.clamp(1 - clip, 1 + clip) * advantages[t])
        loss = -surrogate.mean() + 0.5 * (value - experience.rewards[t]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    rollouts = Rollouts(policy)
    for iteration in range(STEPS):
        loss = update(policy, optimizer, rollouts.collect())
    print("loss", round(loss, 3))


if __name__ == "__main__":
    main()
