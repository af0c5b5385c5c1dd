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


class LitTagger(pl.LightningModule):
    def __init__(self, vocab=100, dim=32, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, tags)
        self.training_step_outputs = []

    def forward(self, tokens):
        return self.head(self.gru(self.embed(tokens))[0])

    def training_step(self, batch, batch_idx):
        tokens, tags = batch
        logits = self(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten())
        self.training_step_outputs.append({"loss": loss, "n": tokens.numel()})
        return loss

    def on_train_epoch_end(self):
        total = sum(o["n"] for o in self.training_step_outputs)
        mean = sum(float(o["loss"]) * o["n"] for o in self.training_step_outputs) / total
        self.epoch_loss = mean

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def data(n=64):
    tokens = torch.randint(0, 100, (n, 12))
    return DataLoader(TensorDataset(tokens, tokens % 5), batch_size=16, shuffle=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = LitTagger()
    trainer = pl.Trainer(max_steps=int(os.environ.get("STEPS", "40")), accelerator="cpu", logger=False,
                         enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, data())
    print("epoch loss", round(model.epoch_loss, 3))
