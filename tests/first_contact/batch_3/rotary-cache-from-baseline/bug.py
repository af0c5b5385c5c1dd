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


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2) / dim), persistent=False)
        self._seq_len_cached = 0
        self._cos_cached = None
        self._sin_cached = None

    def _update_cos_sin_cache(self, seqlen):
        if seqlen > self._seq_len_cached:
            self._seq_len_cached = seqlen
            freqs = torch.outer(torch.arange(seqlen, dtype=torch.float32), self.inv_freq)
            self._cos_cached = torch.cos(freqs)
            self._sin_cached = torch.sin(freqs)

    def forward(self, x):
        seqlen = x.shape[-2]
        self._update_cos_sin_cache(seqlen)
        cos, sin = self._cos_cached[:seqlen], self._sin_cached[:seqlen]
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)


class CharLM(pl.LightningModule):
    def __init__(self, vocab=40, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.rotary = RotaryEmbedding(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens):
        q, k, v = self.qkv(self.embed(tokens)).chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        return self.head(y)

    def loss(self, batch):
        (tokens,) = batch
        return F.cross_entropy(self(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def loader(n):
    return DataLoader(TensorDataset(torch.randint(0, 40, (n, 1)) + torch.arange(20) % 3), batch_size=8)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    trainer = pl.Trainer(max_steps=int(os.environ.get("STEPS", "40")), accelerator="cpu", logger=False,
                         enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    model, train, val = CharLM(vocab=42), loader(64), loader(16)
    (baseline,) = trainer.validate(model, val, verbose=False)
    trainer.fit(model, train, val)
    (final,) = trainer.validate(model, val, verbose=False)
    print("validation loss", baseline["val_loss"], "->", final["val_loss"])
