import os

import torch
import torch.nn.functional as F
from torch import nn


class LitModule(nn.Module):
    """The few parts of a Lightning module that manual optimization needs."""

    def optimizers(self):
        if not hasattr(self, "_optimizers"):
            self._optimizers = self.configure_optimizers()
        return self._optimizers

    def manual_backward(self, loss):
        loss.backward()

    def log_dict(self, values):
        self.logged = {name: value.item() for name, value in values.items()}


class LitGAN(LitModule):
    def __init__(self, latent_dim=16, width=64, data_dim=32):
        super().__init__()
        self.latent_dim = latent_dim
        self.generator = nn.Sequential(
            nn.Linear(latent_dim, width),
            nn.BatchNorm1d(width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, data_dim),
            nn.Tanh(),
        )
        self.discriminator = nn.Sequential(nn.Linear(data_dim, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def configure_optimizers(self):
        opt_g = torch.optim.Adam(self.generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
        opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
        return opt_g, opt_d

    def adversarial_loss(self, scores, real):
        return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, float(real)))

    def training_step(self, batch, batch_idx):
        opt_g, opt_d = self.optimizers()
        noise = torch.randn(len(batch), self.latent_dim)
        fake = self.generator(noise)

        real_loss = self.adversarial_loss(self.discriminator(batch), True)
        fake_loss = self.adversarial_loss(self.discriminator(fake.detach()), False)
        d_loss = (real_loss + fake_loss) / 2
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()

        g_loss = self.adversarial_loss(self.discriminator(fake), True)
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        self.log_dict({"d_loss": d_loss, "g_loss": g_loss})


class Loop:
    def __init__(self, max_steps):
        self.max_steps = max_steps

    def fit(self, module, batches):
        module.train()
        for batch_idx, batch in zip(range(self.max_steps), batches):
            module.training_step(batch, batch_idx)
        return module.logged


def waves(batch_size=32, length=32):
    grid = torch.linspace(0, 6.28, length)
    while True:
        frequency = torch.randint(1, 4, (batch_size, 1)).float()
        yield 0.9 * torch.sin(frequency * grid + 6.28 * torch.rand(batch_size, 1))


if __name__ == "__main__":
    torch.manual_seed(7)
    torch.set_num_threads(1)
    print(Loop(int(os.environ.get("STEPS", "40"))).fit(LitGAN(), waves()))
