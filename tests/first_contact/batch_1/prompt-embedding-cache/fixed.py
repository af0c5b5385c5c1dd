import hashlib
import os
import random

import torch
from torch import nn

_EMBED_CACHE = {}
WORDS = "a photo of an old red blue tiny huge cat dog castle river in the rain snow at night".split()


class TextEncoder(nn.Module):
    def __init__(self, dim=96, max_length=77):
        super().__init__()
        self.max_length = max_length
        self.table = nn.Embedding(1000, dim)
        self.mix = nn.Linear(dim, dim)

    def forward(self, ids):
        return torch.tanh(self.mix(self.table(ids)))


def tokenize(prompt, length):
    ids = [int(hashlib.md5(w.encode()).hexdigest(), 16) % 999 + 1 for w in prompt.split()][:length]
    return torch.tensor(ids + [0] * (length - len(ids)))


def encode_prompt(encoder, prompt, negative=""):
    key = (prompt, negative)
    if key not in _EMBED_CACHE:
        ids = torch.stack([tokenize(negative, encoder.max_length), tokenize(prompt, encoder.max_length)])
        with torch.no_grad():
            _EMBED_CACHE[key] = encoder(ids)
        if len(_EMBED_CACHE) > 8:
            _EMBED_CACHE.pop(next(iter(_EMBED_CACHE)))
    return _EMBED_CACHE[key]


def denoise(latents, cond, steps=3):
    for _ in range(steps):
        latents = latents - 0.1 * (latents - cond.mean((0, 1))[:4, None, None])
    return latents


def serve(requests, seed=0):
    random.seed(seed)
    torch.manual_seed(seed)
    encoder = TextEncoder().eval()
    brightness = 0.0
    for number in range(requests):
        prompt = f"{' '.join(random.sample(WORDS, 6))} #{number}"
        cond = encode_prompt(encoder, prompt, negative="blurry")
        brightness += denoise(torch.randn(4, 16, 16), cond).mean().item()
    return brightness / requests


if __name__ == "__main__":
    print("brightness", serve(int(os.environ.get("STEPS", "40"))))
