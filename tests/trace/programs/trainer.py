"""A Hugging Face model of random weights, trained by its Trainer; prints a digest of losses and weights."""

import hashlib
import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.set_num_threads(1)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_positions=32, n_embd=32, n_layer=2, n_head=2))
tokens = torch.randint(97, (64, 16))
data = [{"input_ids": row, "labels": row} for row in tokens]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, max_steps=int(sys.argv[1]), per_device_train_batch_size=4, report_to=[], logging_steps=1, use_cpu=True,
        save_strategy="no", disable_tqdm=True, seed=1, dataloader_num_workers=int(sys.argv[2]),
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
digest = hashlib.sha256(repr(losses).encode())
for parameter in model.parameters():
    digest.update(parameter.detach().numpy().tobytes())
print(len(losses), digest.hexdigest())
