import os

import torch
from torch import nn


class Logger:
    def __init__(self):
        self.rows = []

    def log(self, **row):
        self.rows.append(row)


class Trainer:
    def __init__(self, model, lr=1e-2, log_every=2):
        self.model = model
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=lr)
        self.logger = Logger()
        self.log_every = log_every
        self.global_step = 0

    def grad_norm(self):
        norms = [p.grad.detach().norm(2) for p in self.model.parameters()]
        return torch.stack(norms).norm(2).item()

    def training_step(self, batch):
        x, y = batch
        return nn.functional.l1_loss(self.model(x).squeeze(-1), y)

    def optimizer_step(self, loss):
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def fit(self, batches):
        for batch in batches:
            self.optimizer.zero_grad()
            loss = self.training_step(batch)
            self.optimizer_step(loss)
            self.global_step += 1
            if self.global_step % self.log_every == 0:
                self.logger.log(step=self.global_step, loss=loss.item(), grad_norm=self.grad_norm())
        return self.logger.rows


def batches(n):
    for _ in range(n):
        x = torch.randn(24, 10)
        yield x, x.abs().sum(1)


torch.manual_seed(0)
trainer = Trainer(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1)))
rows = trainer.fit(batches(int(os.environ.get("STEPS", "40"))))
print(rows[-1])
