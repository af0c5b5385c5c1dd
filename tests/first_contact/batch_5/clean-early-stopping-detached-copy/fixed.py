import copy
import os
from collections import deque

import torch
from torch import nn


class Pooling(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)
        self.attention = None

    def forward(self, x):
        weights = self.score(x).softmax(dim=1)
        self.attention = weights.detach()
        return (weights * x).sum(1)


def build():
    return nn.Sequential(nn.Linear(5, 32), nn.Tanh(), Pooling(32), nn.Linear(32, 1))


def train(model, x, y, epochs, patience=8):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    best_loss, best_state, waited = float("inf"), None, 0
    snapshots = deque(maxlen=3)
    for epoch in range(epochs):
        loss = (model(x).squeeze(-1) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < best_loss:
            best_loss, waited = loss.item(), 0
            best_state = copy.deepcopy(model.state_dict())
        else:
            waited += 1
        if epoch % 5 == 4:
            snapshots.append(copy.deepcopy(model))
        if waited > patience:
            break
    model.load_state_dict(best_state)
    return best_loss, list(snapshots)


def main():
    torch.manual_seed(0)
    x = torch.randn(64, 10, 5)
    y = x[:, :, 0].amax(1)
    model = build()
    best_loss, snapshots = train(model, x, y, int(os.environ.get("STEPS", "40")))
    with torch.no_grad():
        members = torch.stack([member(x).squeeze(-1) for member in [model, *snapshots]])
    print(f"best {best_loss:.4f}, ensemble {(members.mean(0) - y).pow(2).mean().item():.4f}")
    print("peak attention", model[2].attention.amax(1).mean().item())


if __name__ == "__main__":
    main()
