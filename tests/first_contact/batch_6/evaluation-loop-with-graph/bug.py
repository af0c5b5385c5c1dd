import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class TrainingArguments:
    train_steps: int = 20
    eval_steps: int = 40
    batch_size: int = 16
    learning_rate: float = 1e-3


class CharTagger(nn.Module):
    def __init__(self, vocab=40, dim=32, tags=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.encoder = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(2 * dim, tags)

    def forward(self, input_ids, labels=None):
        hidden, _ = self.encoder(self.embed(input_ids))
        logits = self.classifier(self.dropout(hidden))
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return loss, logits


class Trainer:
    def __init__(self, model, args, compute_metrics):
        self.model, self.args, self.compute_metrics = model, args, compute_metrics
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

    def get_batches(self, steps):
        for _ in range(steps):
            input_ids = torch.randint(0, 40, (self.args.batch_size, 24))
            yield {"input_ids": input_ids, "labels": (input_ids + input_ids.roll(1, 1)) % 6}

    def train(self):
        self.model.train()
        for batch in self.get_batches(self.args.train_steps):
            loss, _ = self.model(**batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def prediction_step(self, batch):
        labels = batch.pop("labels")
        _, logits = self.model(**batch)
        return logits, labels

    def evaluate(self):
        self.model.eval()
        all_preds, all_labels = [], []
        for batch in self.get_batches(self.args.eval_steps):
            logits, labels = self.prediction_step(batch)
            all_preds.append(logits)
            all_labels.append(labels)
        return self.compute_metrics(torch.cat(all_preds), torch.cat(all_labels))


def accuracy_and_entropy(logits, labels):
    probs = logits.softmax(-1)
    entropy = -(probs * probs.log()).sum(-1).mean()
    return {"accuracy": (logits.argmax(-1) == labels).float().mean().item(), "entropy": entropy.item()}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    args = TrainingArguments(eval_steps=int(os.environ.get("STEPS", "40")))
    trainer = Trainer(CharTagger(), args, accuracy_and_entropy)
    trainer.train()
    print({name: round(value, 3) for name, value in trainer.evaluate().items()})


if __name__ == "__main__":
    main()
