import os

import torch
import torch.nn.functional as F
from torch import nn


class DepthAndNormals(nn.Module):
    def __init__(self, features=16, hidden=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.depth = nn.Linear(hidden, 1)
        self.normals = nn.Linear(hidden, 3)
        self.segments = nn.Linear(hidden, 5)

    def losses(self, x, target):
        shared = self.trunk(x)
        return {
            "depth": F.l1_loss(self.depth(shared).squeeze(-1), target["depth"]),
            "normals": 1 - F.cosine_similarity(self.normals(shared), target["normals"]).mean(),
            "segments": F.cross_entropy(self.segments(shared), target["segments"]),
        }


def gradient_norms(losses, shared_parameters):
    norms = {}
    for task, loss in losses.items():
        grads = torch.autograd.grad(loss, shared_parameters)
        norms[task] = torch.linalg.vector_norm(torch.stack([g.norm() for g in grads])).item()
    return norms


def make_batch(n=64):
    x = torch.randn(n, 16)
    return x, {"depth": x[:, 0].abs(), "normals": F.normalize(x[:, 1:4], dim=1), "segments": x[:, :5].argmax(1)}


def main():
    torch.manual_seed(3)
    model = DepthAndNormals()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    weights = {"depth": 1.0, "normals": 1.0, "segments": 1.0}
    for step in range(int(os.environ.get("STEPS", "40"))):
        losses = model.losses(*make_batch())
        if step % 5 == 0:
            norms = gradient_norms(losses, list(model.trunk.parameters()))
            mean = sum(norms.values()) / len(norms)
            weights = {task: (mean / norm) ** 0.5 for task, norm in norms.items()}
        total = sum(weights[task] * loss for task, loss in losses.items())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    print({task: round(weight, 3) for task, weight in weights.items()}, "total", round(total.item(), 4))


if __name__ == "__main__":
    main()
