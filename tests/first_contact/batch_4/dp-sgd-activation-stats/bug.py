import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap


class TabularNet(nn.Module):
    def __init__(self, features=12, hidden=64, classes=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, hidden))
        self.head = nn.Linear(hidden, classes)
        self.hidden = None

    def forward(self, x):
        self.hidden = F.relu(self.encoder(x))
        return self.head(self.hidden)


class PrivateClient:
    """One client of a federation; its updates are clipped for each sample and noise is added."""

    def __init__(self, model, clip=1.0, noise=0.4, lr=0.2):
        self.model = model
        self.clip, self.noise, self.lr = clip, noise, lr
        self.sample_gradients = vmap(grad(self.sample_loss), in_dims=(None, 0, 0))

    def sample_loss(self, parameters, x, y):
        logits = functional_call(self.model, parameters, (x.unsqueeze(0),))
        return F.cross_entropy(logits, y.unsqueeze(0))

    def update(self, x, y):
        parameters = {name: p.detach() for name, p in self.model.named_parameters()}
        gradients = self.sample_gradients(parameters, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        scale = (self.clip / norms.clamp(min=1e-6)).clamp(max=1.0)
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                clipped = torch.tensordot(scale, gradients[name], 1)
                p -= self.lr * (clipped + self.noise * self.clip * torch.randn_like(p)) / len(x)
        return norms.median().item()

    def dead_units(self):
        return (self.model.hidden <= 0).float().mean().item()


def batches(n, size=32):
    for _ in range(n):
        x = torch.randn(size, 12)
        yield x, x[:, :3].argmax(1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    client = PrivateClient(TabularNet())
    for step, (x, y) in enumerate(batches(int(os.environ.get("STEPS", "40")))):
        norm = client.update(x, y)
        if step % 10 == 0:
            print(f"step {step} median norm {norm:.2f} dead {client.dead_units():.2f}")


if __name__ == "__main__":
    main()
