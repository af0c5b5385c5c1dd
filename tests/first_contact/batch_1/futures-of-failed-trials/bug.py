import os
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class Diverged(Exception):
    pass


def objective(trial, lr):
    generator = torch.Generator().manual_seed(trial)
    model = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    x = torch.randn(512, 32, generator=generator)
    y = x[:, :1] * 3 - 1
    for epoch in range(3):
        features = model[1](model[0](x))
        loss = (model[2](features) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() > 0.5 * lr:
            raise Diverged(f"trial {trial}: loss {loss.item():.3f} with lr {lr:.4f}")
    return loss.item()


class Study:
    def __init__(self, workers=1):
        self.pool = ThreadPoolExecutor(workers)
        self.trials = []

    def optimize(self, n_trials):
        for trial in range(n_trials):
            lr = 10 ** (-3 + 2 * trial / n_trials)
            future = self.pool.submit(objective, trial, lr)
            future.exception()
            self.trials.append((lr, future))

    def summary(self):
        failed = [str(future.exception()) for _, future in self.trials if future.exception()]
        return len(self.trials) - len(failed), failed[-1:]


if __name__ == "__main__":
    torch.set_num_threads(1)
    study = Study()
    study.optimize(int(os.environ.get("STEPS", "40")))
    finished, last = study.summary()
    print("finished", finished, "last failure", last)
