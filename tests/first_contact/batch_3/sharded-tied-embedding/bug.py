import os

import torch
import torch.nn.functional as F
from torch import nn


class StreamedUnit(nn.Module):
    """Keeps the weights of a module in a host shard and materialises them for its forward only."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.shard = {name: p.detach().clone() for name, p in module.named_parameters()}
        self.release()

    def gather(self):
        for name, p in self.module.named_parameters():
            storage = p.untyped_storage()
            if storage.size() == 0:
                storage.resize_(self.shard[name].numel() * p.element_size())
                p.data.copy_(self.shard[name])

    def release(self):
        for p in self.module.parameters():
            p.untyped_storage().resize_(0)

    def forward(self, *args):
        self.gather()
        try:
            return self.module(*args)
        finally:
            self.release()


class Decoder(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(depth)
        )

    def forward(self, tokens):
        h = self.embed(tokens)
        for block in self.blocks:
            h = h + block(h)
        return F.linear(h, self.embed_weight())

    def embed_weight(self):
        unit = self.embed
        return unit.module.weight if isinstance(unit, StreamedUnit) else unit.weight


def stream(model):
    model.embed = StreamedUnit(model.embed)
    for i, block in enumerate(model.blocks):
        model.blocks[i] = StreamedUnit(block)
    return model


@torch.no_grad()
def generate(model, tokens, n):
    for _ in range(n):
        logits = model(tokens[:, -16:])[:, -1]
        tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = stream(Decoder().eval())
    prompt = torch.randint(0, 64, (2, 4))
    print(generate(model, prompt, int(os.environ.get("STEPS", "40")))[0].tolist())
