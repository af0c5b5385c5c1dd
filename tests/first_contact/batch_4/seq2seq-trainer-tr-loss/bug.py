import os
from dataclasses import dataclass, field

import torch
from transformers import BartConfig, BartForConditionalGeneration
from transformers.utils import logging

logging.set_verbosity_error()


@dataclass
class TrainingArguments:
    max_steps: int = int(os.environ.get("STEPS", "40"))
    per_device_train_batch_size: int = 4
    gradient_accumulation_steps: int = 1
    learning_rate: float = 5e-4
    logging_steps: int = 500
    max_grad_norm: float = 1.0


@dataclass
class TrainerState:
    global_step: int = 0
    log_history: list = field(default_factory=list)


class ReverseDataset(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(4, 60, (10,), generator=generator)
        return {"input_ids": tokens, "labels": tokens.flip(0)}


class Seq2SeqTrainer:
    def __init__(self, model, args, train_dataset):
        self.model = model
        self.args = args
        self.state = TrainerState()
        self.train_dataset = train_dataset
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

    def get_train_dataloader(self):
        generator = torch.Generator().manual_seed(7)
        return torch.utils.data.DataLoader(
            self.train_dataset, self.args.per_device_train_batch_size, shuffle=True, generator=generator
        )

    def compute_loss(self, inputs):
        outputs = self.model(**inputs)
        return outputs["loss"] if isinstance(outputs, dict) else outputs[0]

    def training_step(self, inputs):
        self.model.train()
        loss = self.compute_loss(inputs)
        if self.args.gradient_accumulation_steps > 1:
            loss = loss / self.args.gradient_accumulation_steps
        loss.backward()
        return loss

    def log(self, logs):
        self.state.log_history.append({**logs, "step": self.state.global_step})

    def _maybe_log(self, tr_loss, logged):
        if self.state.global_step % self.args.logging_steps == 0:
            total = tr_loss.item()
            self.log({"loss": (total - logged) / self.args.logging_steps})
            return total
        return logged

    def _batches(self):
        while True:
            yield from self.get_train_dataloader()

    def train(self):
        tr_loss = torch.tensor(0.0)
        logged = 0.0
        for step, inputs in enumerate(self._batches(), 1):
            tr_loss += self.training_step(inputs)
            if step % self.args.gradient_accumulation_steps == 0:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.state.global_step += 1
                logged = self._maybe_log(tr_loss, logged)
            if self.state.global_step >= self.args.max_steps:
                break
        return tr_loss.item() / self.state.global_step


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = BartConfig(
        vocab_size=64, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32,
    )
    trainer = Seq2SeqTrainer(BartForConditionalGeneration(config), TrainingArguments(), ReverseDataset())
    print("train_loss", round(trainer.train(), 3))


if __name__ == "__main__":
    main()
