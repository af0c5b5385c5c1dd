import math
import os

import torch
import torch.nn as nn


def timestep_embedding(t, dim=16):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2) / (dim // 2))
    args = t[:, None].float() * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class Denoiser(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.temb = nn.Linear(16, channels)
        self.conv_in = nn.Conv2d(1, channels, 3, padding=1)
        self.conv_mid = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv_out = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x, t):
        h = torch.relu(self.conv_in(x) + self.temb(timestep_embedding(t))[..., None, None])
        h = torch.relu(self.conv_mid(h))
        return self.conv_out(h)


class Diffusion:
    def __init__(self, model, timesteps):
        self.model = model
        self.timesteps = timesteps
        self.betas = torch.linspace(1e-4, 0.02, timesteps)
        self.alphas = 1.0 - self.betas
        self.alpha_bar = torch.cumprod(self.alphas, 0)

    def loss(self, x0):
        t = torch.randint(0, self.timesteps, (len(x0),))
        noise = torch.randn_like(x0)
        a = self.alpha_bar[t][:, None, None, None]
        return (self.model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t) - noise).pow(2).mean()

    def p_sample(self, x, i):
        t = torch.full((len(x),), i)
        eps = self.model(x, t)
        mean = (x - self.betas[i] / (1 - self.alpha_bar[i]).sqrt() * eps) / self.alphas[i].sqrt()
        return mean + (self.betas[i].sqrt() * torch.randn_like(x) if i > 0 else 0)

    @torch.no_grad()
    def sample(self, n, size=16):
        self.model.eval()
        x = torch.randn(n, 1, size, size)
        for i in reversed(range(self.timesteps)):
            x = self.p_sample(x, i)
        self.model.train()
        return x.clamp(-1, 1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    diffusion = Diffusion(Denoiser(), timesteps=int(os.environ.get("STEPS", "40")))
    optimizer = torch.optim.Adam(diffusion.model.parameters(), lr=2e-4)
    for _ in range(5):
        loss = diffusion.loss(torch.rand(16, 1, 16, 16) * 2 - 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    images = diffusion.sample(16)
    print("loss", round(loss.item(), 3), "sample std", round(images.std().item(), 2))


if __name__ == "__main__":
    main()
