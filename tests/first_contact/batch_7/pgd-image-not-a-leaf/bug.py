import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

ATTACKS = {}


def register_attack(name):
    def register(cls):
        ATTACKS[name] = cls
        return cls

    return register


@register_attack("fgsm")
@dataclass
class FGSM:
    epsilon: float = 0.1

    def __call__(self, model, images, labels):
        x = images.clone().requires_grad_(True)
        F.cross_entropy(model(x), labels).backward()
        return (images + self.epsilon * x.grad.sign()).clamp(0, 1)


@register_attack("pgd")
@dataclass
class PGD:
    epsilon: float = 0.1
    alpha: float = 0.03
    iterations: int = 5

    def __call__(self, model, images, labels):
        x_adv = images.clone().requires_grad_(True)
        for _ in range(self.iterations):
            F.cross_entropy(model(x_adv), labels).backward()
            x_adv = x_adv + self.alpha * x_adv.grad.sign()
            x_adv = torch.clamp(torch.min(torch.max(x_adv, images - self.epsilon), images + self.epsilon), 0, 1)
        return x_adv.detach()


class DigitNet(nn.Module):
    def __init__(self, size=12, classes=4):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.fc = nn.Linear(8 * (size // 2) ** 2, classes)

    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).flatten(1))


def stripes(count, size=12):
    labels = torch.randint(4, (count,))
    images = torch.zeros(count, 1, size, size)
    for image, label in zip(images, labels.tolist()):
        if label % 2:
            image[:, label :: 4] = 1.0
        else:
            image[:, :, label :: 4] = 1.0
    return (images + 0.1 * torch.rand_like(images)).clamp(0, 1), labels


def adversarial_training(model, attack, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    hits = 0
    for _ in range(steps):
        images, labels = stripes(32)
        adversarial = attack(model, images, labels)
        optimizer.zero_grad()
        logits = model(adversarial)
        F.cross_entropy(logits, labels).backward()
        optimizer.step()
        hits += int((logits.argmax(1) == labels).sum())
    return hits / (32 * steps)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    steps = int(os.environ.get("STEPS", "40"))
    for name in ("fgsm", "pgd"):
        robust = adversarial_training(DigitNet(), ATTACKS[name](), steps)
        print(f"{name}: accuracy under attack {robust:.3f}")
