import functools
import os
from collections import Counter

import torch
from torch import nn


class NonFiniteLoss(ArithmeticError):
    pass


def skip_bad_batches(step):
    """Lets a training survive single bad batches; what went wrong is in `step.failures`."""
    failures = []

    @functools.wraps(step)
    def guarded(batch_index, *args, **kwargs):
        try:
            return step(batch_index, *args, **kwargs)
        except NonFiniteLoss as error:
            failures.append((batch_index, type(error).__name__))
            return None

    guarded.failures = failures
    return guarded


class DepthNet(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 64))

    def forward(self, rays):
        return self.net(rays)


@skip_bad_batches
def train_step(batch_index, model, optimizer, rays, depth):
    prediction = model(rays)
    loss = (prediction - depth.log()).pow(2).mean() + 0.1 * (prediction.exp() - depth).abs().mean()
    if not torch.isfinite(loss):
        raise NonFiniteLoss(f"loss is {loss.item()} in batch {batch_index}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def lidar_batches(count, rays_per_batch=512):
    for n in range(count):
        rays = torch.randn(rays_per_batch, 64)
        depth = 1.0 + rays.sigmoid()
        if n % 2:
            depth[0, :3] = 0.0  # a ray without an echo
        yield rays, depth


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DepthNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    good = []
    for index, (rays, depth) in enumerate(lidar_batches(int(os.environ.get("STEPS", "40")))):
        loss = train_step(index, model, optimizer, rays, depth)
        if loss is not None:
            good.append(loss)
    kinds = Counter(kind for _, kind in train_step.failures)
    print(f"{len(good)} good batches, last loss {good[-1]:.3f}; failures: {dict(kinds)}")


if __name__ == "__main__":
    main()
