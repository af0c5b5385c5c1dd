"""Batches come from a thread, validation runs in another one; only numbers and texts stay."""

import copy
import os
import queue
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch import nn


class Prefetcher:
    """A bounded queue between the thread that makes batches and the training."""

    END = object()

    def __init__(self, make_batches, ahead=3):
        self.queue = queue.Queue(maxsize=ahead)
        self.thread = threading.Thread(target=self.fill, args=(make_batches,), daemon=True)

    def fill(self, make_batches):
        for batch in make_batches():
            self.queue.put(batch)
        self.queue.put(self.END)

    def __iter__(self):
        self.thread.start()
        while (batch := self.queue.get()) is not self.END:
            yield batch
        self.thread.join()


class Validator:
    """Evaluates a copy of the model in a thread; grad mode is set in that thread."""

    def __init__(self, x, y):
        self.x, self.y = x, y
        self.pool = ThreadPoolExecutor(1)
        self.pending, self.scores = None, []

    def submit(self, model):
        self.collect()
        self.pending = self.pool.submit(self.score, copy.deepcopy(model))

    def score(self, model):
        with torch.no_grad():
            logits = model(self.x)
        return (logits.argmax(1) == self.y).float().mean().item()

    def collect(self):
        if self.pending is not None:
            self.scores.append(self.pending.result())
            self.pending = None


def sample(count, seed):
    x = torch.randn(count, 16, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > x[:, 1]).long() + (x[:, 2] > 1).long()


def batches(steps):
    for n in range(steps):
        x, y = sample(48, seed=n)
        yield (x if n % 9 else x[:, :15]), y  # now and then a sensor is missing


def main(steps):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    validator, complaints = Validator(*sample(200, seed=10**6)), []
    for n, (features, labels) in enumerate(Prefetcher(lambda: batches(steps))):
        try:
            loss = F.cross_entropy(model(features), labels)
        except RuntimeError:
            complaints.append((n, traceback.format_exc(limit=1)))
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if n % 5 == 4:
            validator.submit(model)
    validator.collect()
    validator.pool.shutdown()
    print(f"{len(complaints)} bad batches, validation {[round(score, 2) for score in validator.scores[-3:]]}")


if __name__ == "__main__":
    main(int(os.environ.get("STEPS", "40")))
