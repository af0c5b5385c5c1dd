import os
from itertools import count

import numpy as np
import torch
from torch import nn, optim
from torch.distributions import Categorical


class Corridor:
    """Reach the right end; a step to the left costs more."""

    def __init__(self, length=6, limit=30):
        self.length, self.limit = length, limit

    def reset(self):
        self.position, self.t = 0, 0
        return self._observe()

    def _observe(self):
        return np.eye(self.length, dtype=np.float32)[self.position]

    def step(self, action):
        self.position = int(np.clip(self.position + (1 if action else -1), 0, self.length - 1))
        self.t += 1
        done = self.position == self.length - 1 or self.t >= self.limit
        return self._observe(), -0.1 if action else -0.2, done


class Policy(nn.Module):
    def __init__(self, inputs, actions=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 64), nn.Dropout(0.1), nn.ReLU(), nn.Linear(64, actions))
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        return self.body(x).softmax(-1)


def select_action(policy, state):
    distribution = Categorical(policy(torch.from_numpy(state).unsqueeze(0)))
    action = distribution.sample()
    policy.saved_log_probs.append(distribution.log_prob(action))
    return action.item()


def finish_episode(policy, optimizer, gamma=0.98):
    running, returns = 0.0, []
    for r in reversed(policy.rewards):
        running = r + gamma * running
        returns.insert(0, running)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    policy_loss = [-log_prob * R for log_prob, R in zip(policy.saved_log_probs, returns)]
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    policy.rewards.clear()
    return policy_loss.item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env = Corridor()
    policy = Policy(env.length)
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    average = -3.0
    for episode in range(int(os.environ.get("STEPS", "40"))):
        state, total = env.reset(), 0.0
        for _ in count():
            state, reward, done = env.step(select_action(policy, state))
            policy.rewards.append(reward)
            total += reward
            if done:
                break
        average = 0.95 * average + 0.05 * total
        finish_episode(policy, optimizer)
    print(f"average reward {average:.2f}")


if __name__ == "__main__":
    main()
