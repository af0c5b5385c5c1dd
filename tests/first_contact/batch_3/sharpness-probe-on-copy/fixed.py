import copy
import os
import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore", message="Using backward")


class HessianProbe:
    """Largest curvature of a loss, on a copy: the gradients of the training stay as they are."""

    def __init__(self, model, criterion, data):
        self.model = copy.deepcopy(model).eval()
        inputs, targets = data
        loss = criterion(self.model(inputs), targets)
        self.params = [p for p in self.model.parameters() if p.requires_grad]
        self.gradients = torch.autograd.grad(loss, self.params, create_graph=True)

    def product(self, vector):
        return torch.autograd.grad(self.gradients, self.params, grad_outputs=vector, retain_graph=True)

    def top_eigenvalue(self, max_iter=8):
        v = normalise([torch.randn_like(p) for p in self.params])
        for _ in range(max_iter):
            hv = self.product(v)
            eigenvalue = dot(hv, v).item()
            v = normalise(hv)
        return eigenvalue


def dot(xs, ys):
    return sum((x * y).sum() for x, y in zip(xs, ys))


def normalise(vs):
    norm = dot(vs, vs).sqrt() + 1e-12
    return [v / norm for v in vs]


def batch(n=256):
    x = torch.randn(n, 20)
    return x, (x[:, :4].prod(dim=1, keepdim=True) > 0).float()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sharpness = []
    for step in range(int(os.environ.get("STEPS", "40"))):
        x, y = batch()
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sharpness.append(HessianProbe(model, criterion, (x, y)).top_eigenvalue())
    print(f"loss {loss.item():.3f}, sharpness {sharpness[0]:.3f} -> {sharpness[-1]:.3f}")


if __name__ == "__main__":
    main()
