import math
import os
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Rollout:
    log_probs: list
    values: list
    rewards: list
    entropies: list

    def returns(self, bootstrap, gamma=0.95):
        out = torch.empty(len(self.rewards))
        for n in reversed(range(len(self.rewards))):
            bootstrap = self.rewards[n] + gamma * bootstrap
            out[n] = bootstrap
        return out


class RecurrentActorCritic(nn.Module):
    def __init__(self, observations=3, hidden=32, actions=3):
        super().__init__()
        self.embed = nn.Linear(observations, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.policy = nn.Linear(hidden, actions)
        self.value = nn.Linear(hidden, 1)
        self.state = torch.zeros(1, hidden)

    def forward(self, observation):
        self.state = self.cell(self.embed(observation).relu_(), self.state)
        return torch.distributions.Categorical(logits=self.policy(self.state)), self.value(self.state).squeeze()

    def cut(self):
        self.state = self.state.detach()


class Tracking:
    """The agent sees where the target was and moves left, right or not at all."""

    def __init__(self):
        self.time, self.position = 0, 0.0

    def observe(self):
        return torch.tensor([[math.sin(self.time / 5) - self.position, self.position, 1.0]])

    def step(self, action):
        self.position = max(-2.0, min(2.0, self.position + 0.3 * (action - 1)))
        self.time += 1
        return -abs(math.sin(self.time / 5) - self.position)


def update(optimizers, rollout, bootstrap):
    returns = rollout.returns(bootstrap)
    values = torch.stack(rollout.values)
    advantage = (returns - values).detach()
    actor_loss = -(torch.stack(rollout.log_probs) * advantage).sum() - 0.01 * torch.stack(rollout.entropies).sum()
    critic_loss = F.smooth_l1_loss(values, returns)
    optimizers[0].zero_grad()
    optimizers[1].zero_grad()
    actor_loss.backward(retain_graph=True)
    critic_loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return critic_loss.item()


def main(updates):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    agent, env = RecurrentActorCritic(), Tracking()
    body = [p for name, p in agent.named_parameters() if not name.startswith("value")]
    optimizers = [torch.optim.Adam(body, lr=3e-3), torch.optim.Adam(agent.value.parameters(), lr=1e-2)]
    recent, total = deque(maxlen=10), torch.zeros(())
    for _ in range(updates):
        rollout = Rollout([], [], [], [])
        agent.cut()
        for _ in range(12):
            distribution, value = agent(env.observe())
            action = distribution.sample()
            rollout.log_probs.append(distribution.log_prob(action).squeeze())
            rollout.entropies.append(distribution.entropy().squeeze())
            rollout.values.append(value)
            rollout.rewards.append(env.step(action.item()))
            total += rollout.rewards[-1]
        recent.append(update(optimizers, rollout, bootstrap=value.detach().item()))
    print(f"mean reward {total.item() / (12 * updates):.3f}, recent value loss {sum(recent) / len(recent):.3f}")


if __name__ == "__main__":
    main(int(os.environ.get("STEPS", "40")))
