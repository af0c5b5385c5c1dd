import os
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class TrainingArguments:
    max_steps: int = 10
    gradient_accumulation_steps: int = 4
    learning_rate: float = 1e-2
    max_grad_norm: float = 1.0
    logging_steps: int = 5


class Trainer:
    def __init__(self, model, args, batches):
        self.model = model
        self.args = args
        self.batches = batches
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
        self.log_history = []

    def compute_loss(self, inputs, labels):
        return nn.functional.cross_entropy(self.model(inputs), labels)

    def training_step(self, inputs, labels):
        loss = self.compute_loss(inputs, labels) / self.args.gradient_accumulation_steps
        loss.backward()
        return loss.detach()

    def train(self):
        tr_loss = torch.tensor(0.0)
        logged = 0
        step = 0
        for index, (inputs, labels) in enumerate(self.batches):
            tr_loss += self.training_step(inputs, labels)
            if (index + 1) % self.args.gradient_accumulation_steps != 0:
                continue
            nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
            self.optimizer.step()
            self.model.zero_grad()
            step += 1
            if step % self.args.logging_steps == 0:
                self.log_history.append({"loss": tr_loss.item() / (step - logged), "step": step})
                tr_loss -= tr_loss
                logged = step
            if step >= self.args.max_steps:
                break
        return step


def synthetic_batches(size=16):
    centres = 2 * torch.randn(3, 12)
    while True:
        labels = torch.randint(0, 3, (size,))
        yield centres[labels] + torch.randn(size, 12), labels


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    args = TrainingArguments(max_steps=int(os.environ.get("STEPS", "40")))
    trainer = Trainer(nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 3)), args, synthetic_batches())
    print("steps", trainer.train(), "last log", trainer.log_history[-1:])
