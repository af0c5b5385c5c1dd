import argparse
import os

import torch
from torch import nn


def mapping_network(dim):
    layers = []
    for _ in range(3):
        layers += [nn.Linear(dim, dim), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers)


class Generator(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.mapping = mapping_network(dim)
        self.synthesis = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, 3 * 16 * 16), nn.Tanh())

    def forward(self, w):
        return self.synthesis(w).view(-1, 3, 16, 16)


def project(G, target, num_steps, lr=0.1, noise_strength=0.05):
    G = G.eval().requires_grad_(False)
    with torch.no_grad():
        samples = G.mapping(torch.randn(1000, 32))
    w_avg, w_std = samples.mean(0, keepdim=True), samples.std()
    w_opt = (torch.randn(1, 32) * w_std + w_avg).requires_grad_()
    optimizer = torch.optim.Adam([w_opt], betas=(0.9, 0.999), lr=lr)
    for step in range(num_steps):
        t = step / num_steps
        noise = torch.randn_like(w_opt) * w_std * noise_strength * max(0.0, 1.0 - t / 0.75) ** 2
        loss = (G(w_opt + noise) - target).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return w_opt.detach(), loss.item()


def main(argv=None):
    parser = argparse.ArgumentParser(description="Project an image into the latent space.")
    parser.add_argument("--seed", type=int, default=303)
    parser.add_argument("--num-steps", type=int, default=int(os.environ.get("STEPS", "40")))
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    w, distance = project(Generator(), torch.rand(1, 3, 16, 16) * 2 - 1, args.num_steps)
    print("distance", round(distance, 4), "norm", w.norm().item())


if __name__ == "__main__":
    main()
