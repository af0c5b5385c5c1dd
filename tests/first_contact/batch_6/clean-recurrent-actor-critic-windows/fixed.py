import os
import weakref
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical


class RememberTheCue:
    """The cue is shown once; the reward comes for repeating it in every later step."""

    def __init__(self, cues=3, seed=0):
        self.rng = np.random.default_rng(seed)
        self.cues = cues
        self.new_cue()

    def new_cue(self):
        self.cue = int(self.rng.integers(self.cues))
        self.shown = False

    def observe(self):
        obs = torch.zeros(1, self.cues)
        if not self.shown:
            obs[0, self.cue] = 1.0
            self.shown = True
        return obs

    def reward(self, action):
        return 1.0 if action == self.cue else -0.2


class RecurrentPolicy(nn.Module):
    instances = weakref.WeakSet()

    def __init__(self, cues=3, hidden=24):
        super().__init__()
        self.cell = nn.GRUCell(cues, hidden)
        self.pi = nn.Linear(hidden, cues)
        self.v = nn.Linear(hidden, 1)
        RecurrentPolicy.instances.add(self)

    def forward(self, obs, state):
        state = self.cell(obs, state)
        return Categorical(logits=self.pi(state)), self.v(state).squeeze(), state


@dataclass
class Window:
    """What one window of steps needs for its loss; the graph ends with the window."""

    log_probs: list = field(default_factory=list)
    values: list = field(default_factory=list)
    entropies: list = field(default_factory=list)
    rewards: list = field(default_factory=list)

    def loss(self, gamma=0.9):
        returns, running = [], 0.0
        for reward in reversed(self.rewards):
            running = reward + gamma * running
            returns.insert(0, running)
        returns = torch.tensor(returns)
        values, log_probs = torch.stack(self.values), torch.stack(self.log_probs)
        policy_loss = -(log_probs * (returns - values.detach())).mean()
        return policy_loss + 0.5 * F.mse_loss(values, returns) - 0.01 * torch.stack(self.entropies).mean()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env, policy = RememberTheCue(), RecurrentPolicy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    average_weights = [p.detach().clone() for p in policy.parameters()]
    state, score = torch.zeros(1, 24), 0.0
    for step in range(int(os.environ.get("STEPS", "40"))):
        if step % 4 == 0:
            env.new_cue()
            state = torch.zeros(1, 24)
        window, state = Window(), state.detach()
        for _ in range(5):
            dist, value, state = policy(env.observe(), state)
            action = dist.sample()
            window.log_probs.append(dist.log_prob(action).squeeze())
            window.values.append(value)
            window.entropies.append(dist.entropy().squeeze())
            window.rewards.append(env.reward(action.item()))
        optimizer.zero_grad()
        window.loss().backward()
        optimizer.step()
        with torch.no_grad():
            for average, parameter in zip(average_weights, policy.parameters()):
                average.lerp_(parameter, 0.05)
        score = 0.9 * score + 0.1 * sum(window.rewards)
    print(f"score {score:.2f}, policies alive {len(RecurrentPolicy.instances)}")


if __name__ == "__main__":
    main()
