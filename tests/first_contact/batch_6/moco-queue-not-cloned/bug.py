"""Momentum contrast on synthetic spectra: two noisy views of a spectrum are a positive pair, the queue holds the negatives."""

import copy
import os

import torch
import torch.nn.functional as F
from torch import nn


class SpectrumEncoder(nn.Module):
    def __init__(self, bins=48, dim=24):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 7, padding=3)
        self.fc = nn.Linear(8 * bins // 2, dim)

    def forward(self, spectra):
        h = F.relu(self.conv(spectra.unsqueeze(1)))
        return self.fc(F.avg_pool1d(h, 2).flatten(1))


class MoCo(nn.Module):
    def __init__(self, base_encoder, dim=24, K=128, m=0.99, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = base_encoder
        self.encoder_k = copy.deepcopy(base_encoder).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.queue_ptr = 0

    @torch.no_grad()
    def _momentum_update_key_encoder(self):
        for param_q, param_k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            param_k.mul_(self.m).add_(param_q, alpha=1 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        end = self.queue_ptr + len(keys)
        self.queue[:, self.queue_ptr : end] = keys.T
        self.queue_ptr = end % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update_key_encoder()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", q, self.queue.detach())
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        labels = torch.zeros(len(logits), dtype=torch.long)
        self._dequeue_and_enqueue(k)
        return logits, labels


def spectra(n, bins=48):
    centre = torch.rand(n, 1) * bins
    return torch.exp(-((torch.arange(bins) - centre) ** 2) / 20)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = MoCo(SpectrumEncoder())
    optimizer = torch.optim.SGD(model.encoder_q.parameters(), lr=0.03, momentum=0.9)
    for step in range(int(os.environ.get("STEPS", "40"))):
        clean = spectra(32)
        logits, labels = model(clean + 0.05 * torch.randn_like(clean), clean + 0.05 * torch.randn_like(clean))
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("contrastive loss", round(loss.item(), 3))


if __name__ == "__main__":
    main()
