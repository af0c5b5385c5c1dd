import os
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.distributions import Normal


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, 64), nn.ReLU())
        self.mu, self.log_std = nn.Linear(64, act_dim), nn.Linear(64, act_dim)

    def sample(self, obs):
        h = self.body(obs)
        dist = Normal(self.mu(h), self.log_std(h).clamp(-5, 2).exp())
        u = dist.rsample()
        action = torch.tanh(u)
        log_prob = dist.log_prob(u) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.sum(-1, keepdim=True)


@dataclass
class SAC:
    obs_dim: int = 6
    act_dim: int = 2
    target_entropy: float = -2.0
    log_alpha: torch.Tensor = field(default_factory=lambda: torch.zeros(1, requires_grad=True))

    def __post_init__(self):
        self.actor = Actor(self.obs_dim, self.act_dim)
        self.critic = nn.Sequential(nn.Linear(self.obs_dim + self.act_dim, 64), nn.ReLU(), nn.Linear(64, 1))
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=3e-4)

    def update_actor(self, obs):
        action, log_pi = self.actor.sample(obs)
        q = self.critic(torch.cat([obs, action], dim=1))
        actor_loss = (self.log_alpha.exp().detach() * log_pi - q).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()

        alpha_loss = -(self.log_alpha * (log_pi.detach() + self.target_entropy)).mean()
        self.alpha_opt.zero_grad()
        alpha_loss.backward()
        self.actor_opt.step()
        self.alpha_opt.step()
        return actor_loss.item(), alpha_loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    agent = SAC()
    for _ in range(int(os.environ.get("STEPS", "40"))):
        info = agent.update_actor(torch.randn(32, agent.obs_dim))
    print("losses", info)
