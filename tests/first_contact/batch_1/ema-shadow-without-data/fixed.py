import os

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
        self.backup = {}

    @torch.no_grad()
    def update(self, model):
        for name, param in model.named_parameters():
            if param.requires_grad:
                self.shadow[name] = (1.0 - self.decay) * param + self.decay * self.shadow[name]

    def apply_shadow(self, model):
        for name, param in model.named_parameters():
            self.backup[name] = param.data
            param.data = self.shadow[name].data

    def restore(self, model):
        for name, param in model.named_parameters():
            param.data = self.backup[name]
        self.backup = {}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    steps = int(os.environ.get("STEPS", "40"))
    model = nn.Sequential(nn.Conv1d(4, 16, 5, padding=2), nn.GELU(), nn.Flatten(), nn.Linear(16 * 32, 8))
    ema = EMA(model, decay=0.99)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        x, y = torch.randn(16, 4, 32), torch.randint(0, 8, (16,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        ema.update(model)
        if step % 10 == 9:
            ema.apply_shadow(model)
            with torch.no_grad():
                val = nn.functional.cross_entropy(model(x), y)
            ema.restore(model)
            print(step, loss.item(), val.item())


main()
