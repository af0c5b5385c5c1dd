import os
from collections import namedtuple
from dataclasses import dataclass

import torch
from torch import nn

EvalPrediction = namedtuple("EvalPrediction", ["predictions", "label_ids"])


@dataclass
class TrainingArguments:
    learning_rate: float = 1e-3
    max_steps: int = 5
    per_device_eval_batch_size: int = 32
    seed: int = 42


class TokenClassifier(nn.Module):
    def __init__(self, vocab_size=300, hidden_size=64, num_labels=9):
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, hidden_size)
        layer = nn.TransformerEncoderLayer(hidden_size, 4, 2 * hidden_size, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.classifier = nn.Linear(hidden_size, num_labels)

    def forward(self, input_ids, labels=None):
        logits = self.classifier(self.encoder(self.embeddings(input_ids)))
        if labels is None:
            return {"logits": logits}
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class Trainer:
    def __init__(self, model, args, train_batches, eval_batches, compute_metrics):
        self.model = model
        self.args = args
        self.train_batches = train_batches
        self.eval_batches = eval_batches
        self.compute_metrics = compute_metrics
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

    def train(self):
        self.model.train()
        for _, inputs in zip(range(self.args.max_steps), self.train_batches()):
            loss = self.model(**inputs)["loss"]
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def prediction_step(self, inputs):
        labels = inputs["labels"]
        outputs = self.model(input_ids=inputs["input_ids"])
        return outputs["logits"], labels

    def evaluate(self):
        self.model.eval()
        all_logits, all_labels = [], []
        for inputs in self.eval_batches():
            logits, labels = self.prediction_step(inputs)
            all_logits.append(logits)
            all_labels.append(labels)
        return self.compute_metrics(EvalPrediction(torch.cat(all_logits), torch.cat(all_labels)))


def tagged_sentences(batches, batch_size, length=24):
    generator = torch.Generator().manual_seed(batches)
    for _ in range(batches):
        input_ids = torch.randint(300, (batch_size, length), generator=generator)
        yield {"input_ids": input_ids, "labels": input_ids % 9}


def token_accuracy(prediction):
    return {"accuracy": (prediction.predictions.argmax(-1) == prediction.label_ids).float().mean().item()}


if __name__ == "__main__":
    args = TrainingArguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    steps = int(os.environ.get("STEPS", "40"))
    trainer = Trainer(
        TokenClassifier(),
        args,
        lambda: tagged_sentences(args.max_steps, 16),
        lambda: tagged_sentences(steps, args.per_device_eval_batch_size),
        token_accuracy,
    )
    trainer.train()
    print(trainer.evaluate())
