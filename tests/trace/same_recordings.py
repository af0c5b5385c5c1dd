"""A random program, recorded: once natively and once in Python.

python same_recordings.py FRAMEWORK FOLDER SEED STEPS
"""

import gc
import importlib
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "soak"))
import other_worlds

import tenure


def torch_program(seed, steps):
    """Operations of which each makes one buffer, kept for a while; a model and its optimizer."""
    import torch

    rng, kept = random.Random(seed), []
    torch.manual_seed(seed)
    net = torch.nn.Linear(6, 6)
    optimizer = rng.choice([torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad])(net.parameters(), lr=0.01)
    for _ in range(steps):
        x = rng.choice(kept) if kept else torch.ones(6, 6)
        kept.append(rng.choice([torch.ones, torch.zeros, torch.rand])(6, 6))
        kept.append(rng.choice([torch.add, torch.mul, torch.maximum])(x, kept[-1]))
        kept.append(rng.choice([torch.sin, torch.exp, torch.neg, torch.tanh])(x))
        view = rng.choice([lambda x=x: x.t(), lambda x=x: x[1:].unsqueeze(0)[0], lambda x=x: x[0].expand(6, 6)])()
        if rng.random() < 0.5:
            kept.append(view * 2)
        if rng.random() < 0.5:
            x.mul_(0.5)
        if rng.random() < 0.4:
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
        del x, view
        rng.shuffle(kept)
        del kept[6:]


def main(framework, folder, seed, steps):
    if framework == "tensorflow":
        world = importlib.import_module("other_tensorflow").WORLD
        other_worlds.play(world, 0, 5, False)  # what TensorFlow makes once
    with tenure.trace(folder):
        if framework == "torch":
            torch_program(seed, steps)
        else:
            other_worlds.play(world, seed, steps, False)
        gc.collect()  # what ends, ends in the trace


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
