import os

import torch
from torch import nn


class ScoreNet(nn.Module):
    def __init__(self, dim=2, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + 1, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, dim))

    def forward(self, x, t):
        return self.net(torch.cat((x, t.expand(len(x), 1)), 1))


def noise_level(t):
    return torch.cos(t * 1.5)


class DDIM:
    def __init__(self, net, n_steps=12):
        self.net = net
        self.times = torch.linspace(0.99, 0.01, n_steps)

    @torch.no_grad()
    def __call__(self, n):
        x = torch.randn(n, 2)
        path = [x]
        previous_eps = None
        for now, after in zip(self.times[:-1], self.times[1:]):
            eps = self.net(x, now)
            if previous_eps is not None:
                eps = 1.5 * eps - 0.5 * previous_eps
            a, b = noise_level(now), noise_level(after)
            x0 = (x - (1 - a**2).sqrt() * eps) / a
            x = b * x0 + (1 - b**2).sqrt() * eps
            previous_eps = eps
            path.append(x)
        return torch.stack(path)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = ScoreNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    sampler = DDIM(net)
    spread = 0.0
    for step in range(int(os.environ.get("STEPS", "40"))):
        x0 = torch.randn(256, 2) * torch.tensor([1.0, 0.1])
        t, eps = torch.rand(256, 1), torch.randn(256, 2)
        a = noise_level(t)
        predicted = net.net(torch.cat((a * x0 + (1 - a**2).sqrt() * eps, t), 1))
        loss = (predicted - eps).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            trajectory = sampler(32)
            spread += trajectory[-1].std().item()
    print("loss", round(loss.item(), 3), "path", tuple(trajectory.shape), "spread", spread > 0)


if __name__ == "__main__":
    main()
