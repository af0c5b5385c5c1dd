import os

import torch
import torch.multiprocessing as mp
from torch import nn


def nearest_codes(latent):
    codebook = torch.linspace(-2, 2, 64)
    distance = (latent.unsqueeze(-1) - codebook).abs()
    return torch.bincount(distance.argmin(-1), minlength=64).tolist()


class CodebookUsage:
    def __init__(self, workers):
        self.pool = mp.get_context("fork").Pool(workers)
        self.total = torch.zeros(64, dtype=torch.long)

    def add(self, latents):
        pool = self.pool
        counts = pool.map(nearest_codes, list(latents))
        self.total += torch.tensor(counts).sum(0)

    def perplexity(self):
        p = self.total / self.total.sum()
        return torch.exp(-(p * torch.log(p + 1e-9)).sum()).item()

    def close(self):
        self.pool.terminate()
        self.pool.join()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    usage = CodebookUsage(workers=2)
    encoder = nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 16))
    decoder = nn.Linear(16, 12)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    try:
        for step in range(int(os.environ.get("STEPS", "40"))):
            batch = torch.randn(8, 12)
            latents = encoder(batch)
            loss = (decoder(latents) - batch).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 0:
                usage.add(latents)
        print("loss", loss.item(), "codebook perplexity", usage.perplexity())
    finally:
        usage.close()


if __name__ == "__main__":
    main()
