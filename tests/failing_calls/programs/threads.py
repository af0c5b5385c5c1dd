"""Tensors in many threads, of which one fails, and a scope."""

import threading
import time

import torch

import tenure

torch.set_num_threads(1)
results = {}


def work(number):
    total = torch.zeros(4)
    for turn in range(5):
        total = total + torch.full((4,), float(number * turn))
        time.sleep(0.02)
    results[number] = float(total.sum())
    if number == 3:
        raise ValueError("thread 3 fails")


threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
with tenure.scope() as scope:
    inner = tenure.keep(torch.ones(3) * 2)
    torch.ones(100).sum()
tenure.mark("between")
tenure.step()
for thread in threads:
    thread.join()
print(sorted(results.items()), inner.tolist(), threading.active_count() - len(threading.enumerate()))
