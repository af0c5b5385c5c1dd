"""WGAN with a gradient penalty on a mixture of Gaussians."""
import os

import torch
from torch import autograd, nn, optim

DIM, HIDDEN, CRITIC_ITERS, LAMBDA = 2, 96, 3, 0.1


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, DIM))

    def forward(self, noise):
        return self.main(noise) + noise


def build_critic():
    return nn.Sequential(nn.Linear(DIM, HIDDEN), nn.Softplus(), nn.Linear(HIDDEN, HIDDEN), nn.Softplus(), nn.Linear(HIDDEN, 1))


def inf_train_gen(batch):
    centers = torch.tensor([(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)])
    while True:
        yield centers[torch.randint(0, 4, (batch,))] + 0.05 * torch.randn(batch, DIM)


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(len(real), 1)
    between = (alpha * real + (1 - alpha) * fake).requires_grad_()
    scores = critic(between)
    gradients = autograd.grad(scores, between, torch.ones_like(scores), create_graph=True, retain_graph=True)[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


class RunningStats:
    def __init__(self, decay=0.98):
        self.decay, self.values = decay, {}

    def add(self, **numbers):
        for name, number in numbers.items():
            self.values[name] = self.decay * self.values.get(name, number) + (1 - self.decay) * number


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    generator, critic = Generator(), build_critic()
    opt_g = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    opt_d = optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    data, stats = inf_train_gen(128), RunningStats()
    one = torch.tensor(1.0)
    for iteration in range(int(os.environ.get("STEPS", "40"))):
        critic.requires_grad_(True)
        for _ in range(CRITIC_ITERS):
            real = next(data)
            fake = generator(torch.randn(len(real), DIM)).detach()
            critic.zero_grad()
            d_real, d_fake = critic(real).mean(), critic(fake).mean()
            d_real.backward(-one, retain_graph=True)
            d_fake.backward(one)
            penalty = LAMBDA * gradient_penalty(critic, real, fake)
            penalty.backward()
            wasserstein = d_real - d_fake
            opt_d.step()
        critic.requires_grad_(False)
        generator.zero_grad()
        g_loss = -critic(generator(torch.randn(128, DIM))).mean()
        g_loss.backward()
        opt_g.step()
        stats.add(wasserstein=wasserstein.item(), g=g_loss.item(), penalty=penalty.detach().item())
    print({name: round(value, 3) for name, value in stats.values.items()})


if __name__ == "__main__":
    main()
