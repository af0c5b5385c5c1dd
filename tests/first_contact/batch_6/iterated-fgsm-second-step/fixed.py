import os
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class IterativeFGSM:
    """Basic iterative method: several signed gradient steps inside an L-infinity ball."""

    predict: nn.Module
    eps: float = 0.3
    eps_iter: float = 0.1
    nb_iter: int = 4
    clip: tuple = field(default=(-3.0, 3.0))

    def perturb(self, x, y):
        x_adv = x.clone().requires_grad_()
        for _ in range(self.nb_iter):
            loss = F.cross_entropy(self.predict(x_adv), y)
            loss.backward()
            x_adv = self._step(x_adv, x)
        return x_adv.detach()

    def _step(self, x_adv, x):
        moved = x_adv + self.eps_iter * x_adv.grad.sign()
        inside = x + torch.clamp(moved - x, -self.eps, self.eps)
        return inside.clamp(*self.clip).detach().requires_grad_()


class SensorClassifier(nn.Sequential):
    def __init__(self, channels=12, hidden=48, classes=4):
        super().__init__(nn.Linear(channels, hidden), nn.Tanh(), nn.Linear(hidden, classes))


def sensor_batches(n, batch_size=64):
    generator = torch.Generator().manual_seed(1)
    for _ in range(n):
        x = torch.randn(batch_size, 12, generator=generator)
        yield x, x[:, :4].argmax(1)


def adversarial_training(model, batches, lr=0.05):
    attack = IterativeFGSM(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    robust = 0.0
    for x, y in batches:
        x_adv = attack.perturb(x, y)
        optimizer.zero_grad()
        logits = model(torch.cat([x, x_adv]))
        F.cross_entropy(logits, y.repeat(2)).backward()
        optimizer.step()
        robust = (logits[len(x) :].argmax(1) == y).float().mean().item()
    return robust


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    accuracy = adversarial_training(SensorClassifier(), sensor_batches(int(os.environ.get("STEPS", "40"))))
    print(f"robust accuracy of the last batch {accuracy:.2f}")
