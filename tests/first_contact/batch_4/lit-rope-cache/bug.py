import logging
import os
import warnings

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)
        self.seq_len_cached = 0
        self.cos_cached = None
        self.sin_cached = None

    def _update_cos_sin_cache(self, seq_len):
        if seq_len > self.seq_len_cached:
            self.seq_len_cached = seq_len
            t = torch.arange(seq_len, device=self.inv_freq.device).float()
            angles = torch.outer(t, self.inv_freq).repeat(1, 2)
            self.cos_cached = angles.cos()
            self.sin_cached = angles.sin()

    def forward(self, q, k):
        n = q.shape[-2]
        self._update_cos_sin_cache(n)
        cos, sin = self.cos_cached[:n], self.sin_cached[:n]
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.rotary = RotaryEmbedding(dim // heads)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.rotary(q, k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class ProteinLM(pl.LightningModule):
    def __init__(self, vocab=25, dim=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.Sequential(Attention(dim, 4), Attention(dim, 4))
        self.head = nn.Linear(dim, vocab)

    def loss(self, batch):
        logits = self.head(self.layers(self.embed(batch[0][:, :-1])))
        return F.cross_entropy(logits.flatten(0, 1), batch[0][:, 1:].flatten())

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch), prog_bar=False)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def loader(n, length=40):
    return DataLoader(TensorDataset(torch.randint(0, 25, (n, length))), batch_size=16)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = ProteinLM()
    trainer = pl.Trainer(max_steps=int(os.environ.get("STEPS", "40")), accelerator="cpu", logger=False,
                         enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    held_out = loader(32)
    (before,) = trainer.validate(model, held_out, verbose=False)
    trainer.fit(model, loader(128))
    (after,) = trainer.validate(model, held_out, verbose=False)
    print("val loss", round(before["val_loss"], 3), "->", round(after["val_loss"], 3))
