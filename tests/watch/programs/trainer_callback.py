"""A Hugging Face Trainer; a callback keeps the logits of every step. Three caches fill up and stop."""

import functools
import sys
import warnings

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

warnings.filterwarnings("ignore")
WINDOWS = {}
PER_LENGTH = {}


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 32), nn.Linear(32, 5)
        self.last = None

    def forward(self, input_ids, labels):
        hidden = self.embed(input_ids) * window(int(input_ids[0, 0]) % 10)[:, None] + positions(len(input_ids))
        logits = self.head(hidden.mean(1))
        self.last = logits
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def window(key):
    if key not in WINDOWS:
        WINDOWS[key] = torch.hann_window(16) + key
    return WINDOWS[key]


@functools.lru_cache
def positions(length):
    return torch.linspace(0, 1, 32)


class Keep(TrainerCallback):
    def __init__(self):
        self.kept = []
        self.first = []

    def on_step_end(self, args, state, control, model=None, **_):
        if len(self.first) < 12:  # the first few only
            self.first.append(model.last.detach().clone())
        PER_LENGTH.setdefault(state.global_step % 9, model.last.detach().clone())
        self.kept.append(model.last)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, at):
        return {"input_ids": torch.arange(at, at + 16) % 50, "labels": torch.tensor(at % 5)}


arguments = TrainingArguments(
    sys.argv[1],
    max_steps=60,
    per_device_train_batch_size=8,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
)
Trainer(Tiny(), arguments, train_dataset=Data(), callbacks=[Keep()]).train()
