import contextlib
import os
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class HostStash:
    """Keeps saved tensors by number until the backward pass asks for them, each exactly once."""

    def __init__(self):
        self.stash = {}
        self.number = 0
        self.high_water = 0

    def pack(self, tensor):
        self.number += 1
        self.stash[self.number] = tensor.to("cpu", copy=True)
        self.high_water = max(self.high_water, len(self.stash))
        return self.number

    def unpack(self, number):
        return self.stash.pop(number)

    def hooks(self):
        return saved_tensors_hooks(self.pack, self.unpack)


@contextlib.contextmanager
def watched_layers(model, kinds):
    """Forward hooks for the time of the block: the mean of each output is kept as a number."""
    means, handles = {}, []
    for name, layer in model.named_modules():
        if isinstance(layer, kinds):
            hook = lambda layer, inputs, output, name=name: means.__setitem__(name, output.detach().mean().item())
            handles.append(layer.register_forward_hook(hook))
    try:
        yield means
    finally:
        for handle in handles:
            handle.remove()


class TwoHeads(nn.Module):
    def __init__(self, inputs=16, hidden=48, classes=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.label = nn.Linear(hidden, classes)
        self.amount = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return self.label(h), self.amount(h).squeeze(1)


def train_step(model, optimizer, stash, x):
    optimizer.zero_grad()
    with stash.hooks():
        logits, amount = model(x)
        loss = F.cross_entropy(logits, x[:, :3].argmax(1)) + F.mse_loss(amount, x.sum(1))
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, stash = TwoHeads(), HostStash()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    recent, probes = deque(maxlen=10), deque(maxlen=4)
    for step in range(int(os.environ.get("STEPS", "40"))):
        recent.append(train_step(model, optimizer, stash, torch.randn(64, 16)))
        if step % 10 == 9:
            with watched_layers(model, nn.Linear) as means, torch.no_grad():
                model(torch.randn(64, 16))
            probes.append(means)
    print("loss", round(sum(recent) / len(recent), 3), "stash", len(stash.stash), "at most", stash.high_water)
    print("last probe", {name: round(value, 3) for name, value in (probes[-1] if probes else {}).items()})


if __name__ == "__main__":
    main()
