import os
import random
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn


def simulate(x, v, force):
    v = 0.9 * v + 0.1 * force
    return (x + v, v), -abs(x + v)


class Critic(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, state, action):
        return super().forward(torch.cat((state, action), 1))


class Policy(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 2))

    def sample(self, state):
        mean, log_std = self(state).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 1).exp())
        raw = normal.rsample()
        action = torch.tanh(raw)
        return action, normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)


class SacAgent:
    def __init__(self, alpha=0.1, gamma=0.95):
        self.policy, self.critic, self.target = Policy(), Critic(), Critic()
        self.target.load_state_dict(self.critic.state_dict())
        self.policy_optim = torch.optim.Adam(self.policy.parameters(), lr=1e-3)
        self.q_optim = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.memory = deque(maxlen=2000)
        self.alpha, self.gamma = alpha, gamma

    @torch.no_grad()
    def act(self, state):
        return self.policy.sample(torch.tensor([state]))[0].item()

    def calc_critic_loss(self, state, action, reward, following):
        with torch.no_grad():
            next_action, log_pi = self.policy.sample(following)
            target = reward + self.gamma * (self.target(following, next_action) - self.alpha * log_pi)
        return F.mse_loss(self.critic(state, action), target)

    def calc_policy_loss(self, state):
        action, log_pi = self.policy.sample(state)
        return (self.alpha * log_pi - self.critic(state, action)).mean()

    def learn(self, batch_size=32):
        batch = [torch.tensor(part) for part in zip(*random.sample(self.memory, batch_size))]
        q_loss = self.calc_critic_loss(*batch)
        policy_loss = self.calc_policy_loss(batch[0])

        self.update(self.q_optim, q_loss)
        self.update(self.policy_optim, policy_loss)
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.critic.parameters()):
                slow.lerp_(fast, 0.01)

    @staticmethod
    def update(optim, loss):
        optim.zero_grad()
        loss.backward()
        optim.step()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    random.seed(0)
    agent, state, total = SacAgent(), (1.0, 0.0), 0.0
    for step in range(int(os.environ.get("STEPS", "40")) + 32):
        action = agent.act(state)
        following, reward = simulate(*state, action)
        agent.memory.append((state, [action], [reward], following))
        total += reward
        state = (random.uniform(-1, 1), 0.0) if step % 20 == 19 else following
        if step >= 32:
            agent.learn()
    print(f"mean reward {total / (step + 1):.3f}")


if __name__ == "__main__":
    main()
