"""Fits an image with 2D Gaussians; every few iterations the ones with large gradients are cloned."""
import os

import torch
from torch import nn


def target_image(size=32):
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    return torch.stack((torch.sin(5 * x) * y, (x * x + y * y).sqrt(), torch.cos(4 * x * y)), -1).sigmoid(), torch.stack((x, y), -1)


class GaussianModel:
    def __init__(self, n=128):
        self._xyz = nn.Parameter(torch.rand(n, 2) * 2 - 1)
        self._scaling = nn.Parameter(torch.full((n, 1), -1.6))
        self._features = nn.Parameter(torch.randn(n, 3) * 0.1)

    def training_setup(self):
        groups = [
            {"params": [self._xyz], "lr": 5e-3, "name": "_xyz"},
            {"params": [self._scaling], "lr": 5e-3, "name": "_scaling"},
            {"params": [self._features], "lr": 2e-2, "name": "_features"},
        ]
        self.optimizer = torch.optim.Adam(groups, eps=1e-15)

    def render(self, pixels):
        offsets = pixels[:, :, None] - self._xyz
        weight = torch.exp(-0.5 * offsets.pow(2).sum(-1) / self._scaling.exp().pow(2).squeeze(1))
        return (weight @ self._features).sigmoid()

    def _replace(self, group, tensor, keep, added):
        """Put a tensor with other rows into a group; Adam's averages of the kept rows go with it."""
        old = group["params"][0]
        state = self.optimizer.state.pop(old, None)
        new = nn.Parameter(tensor)
        if state is not None:
            moved = {"step": state["step"]}
            for key in ("exp_avg", "exp_avg_sq"):
                moved[key] = torch.cat((state[key][keep], torch.zeros_like(tensor[:added])))
            self.optimizer.state[new] = moved
        group["params"][0] = new
        setattr(self, group["name"], new)

    @torch.no_grad()
    def densify_and_prune(self, count=8):
        score = self._xyz.grad.norm(dim=1)
        grow = score.topk(count).indices
        keep = self._features.abs().sum(1).argsort()[count:]
        for group in self.optimizer.param_groups:
            rows = group["params"][0].detach()
            noise = 0.02 * torch.randn_like(rows[grow]) if group["name"] == "_xyz" else 0
            self._replace(group, torch.cat((rows[keep], rows[grow] + noise)), keep, count)


def training(iterations):
    image, pixels = target_image()
    gaussians = GaussianModel()
    gaussians.training_setup()
    for iteration in range(1, iterations + 1):
        loss = (gaussians.render(pixels) - image).abs().mean()
        loss.backward()
        if iteration % 2 == 0:
            gaussians.densify_and_prune()
        gaussians.optimizer.step()
        gaussians.optimizer.zero_grad(set_to_none=True)
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("l1", round(training(int(os.environ.get("STEPS", "40"))), 4))
