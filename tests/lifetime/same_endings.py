"""Random programs in scopes, and what became of every handle: run with and without native parts, which must say the same.

python same_endings.py FIRST COUNT STEPS
"""

import gc
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "soak"))
import other_worlds
import torch
from other_torch import WORLD

import tenure
from tenure.frameworks import ended

ASKED = "shape dtype device layout ndim requires_grad is_leaf nbytes".split()
TRIED = {
    "add": lambda x: x + 1,
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x.sum().item(),
    "backward": lambda x: x.sum().backward(),
    "index": lambda x: x[0],
    "dlpack": lambda x: torch.from_dlpack(x),
    "clone": lambda x: x.clone(),
}


def endings(seed, steps):
    """Of each handle that a program's scopes and dispose end: what it was, where it was born, and what ended it."""
    found, bury = [], ended.bury

    def noted(handle, info):
        found.append(str(info))
        bury(handle, info)

    ended.bury = noted
    try:
        log = other_worlds.play(WORLD, seed, steps, True)
    finally:
        ended.bury = bury
    return found, log


def random_tensor(rng):
    kind = rng.choice([torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
    x = torch.ones([rng.randrange(4) for _ in range(rng.randrange(4))], dtype=kind)
    if kind.is_floating_point and rng.random() < 0.5:
        x.requires_grad_()
        x = rng.choice([x, x * 1, torch.nn.Parameter(x.detach())])
    if x.dim() > 1 and rng.random() < 0.5:
        x = x.transpose(0, 1)
    return x.unsqueeze(0).expand(3, *x.shape) if rng.random() < 0.2 else x


def metadata(seed):
    """What an ended handle still says, and what it refuses."""
    x = random_tensor(random.Random(seed))
    remains = tenure.dispose(x)
    said = [str(getattr(x, name)) for name in ASKED] + [str(x.stride()), str(x.is_contiguous()), repr(x)]
    for name, use in TRIED.items():
        try:
            said.append(f"{name}: {use(x)}")
        except Exception as error:
            said.append(f"{name}: {type(error).__name__} {error}")
    return said + [(one.fate, one.nbytes) for one in remains]


def main(first, count, steps):
    other_worlds.play(WORLD, 0, 30, True)
    gc.collect()
    gc.freeze()
    for seed in range(first, first + count):
        print(json.dumps([endings(seed, steps), metadata(seed), metadata(-seed)]))


main(*map(int, sys.argv[1:]))
