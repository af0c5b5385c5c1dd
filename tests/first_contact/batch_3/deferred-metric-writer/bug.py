import io
import os

import torch
from torch import nn


class DeferredWriter:
    """Collects log calls and writes them when there is time, at the latest at close()."""

    def __init__(self, stream, every=500):
        self.stream = stream
        self.every = every
        self.todo = []

    def later(self, write):
        self.todo.append(write)
        if len(self.todo) >= self.every:
            self.flush()

    def flush(self):
        for write in self.todo:
            self.stream.write(write() + "\n")
        self.todo.clear()


class VAE(nn.Module):
    def __init__(self, dim=256, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, dim))

    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


def train(steps, writer):
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    basis = torch.randn(8, 256)
    for step in range(steps):
        x = torch.randn(64, 8) @ basis
        recon, mu, logvar = model(x)
        recon_loss = (recon - x).pow(2).mean()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1).mean()
        loss = recon_loss + 1e-3 * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        def summary(step=step, recon_loss=recon_loss, kl=kl, recon=recon):
            return f"{step} recon {recon_loss.item():.4f} kl {kl.item():.4f} range {recon.min():.2f}..{recon.max():.2f}"

        writer.later(summary)
    writer.flush()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    log = io.StringIO()
    loss = train(int(os.environ.get("STEPS", "40")), DeferredWriter(log))
    print("loss", round(loss, 3), "| last:", log.getvalue().splitlines()[-1])
