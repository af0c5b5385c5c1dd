import os

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call


class TemporalAttention(nn.Module):
    """Attention with a learned slope per head; the matrix of distances is made when the first sequence arrives."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.slopes = nn.Parameter(torch.linspace(0.1, 1.0, heads))
        self.register_buffer("distances", None, persistent=False)

    def relative_distances(self, length):
        if self.distances is None or len(self.distances) < length:
            positions = torch.arange(length, dtype=torch.float32)
            self.distances = (positions[:, None] - positions[None, :]).abs()
        return self.distances[:length, :length]

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = -self.slopes.view(-1, 1, 1) * self.relative_distances(length)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return x + y.transpose(1, 2).reshape(batch, length, dim)


class Forecaster(nn.Module):
    def __init__(self, features=5, dim=32):
        super().__init__()
        self.inputs = nn.Linear(features, dim)
        self.attention = TemporalAttention(dim)
        self.outputs = nn.Linear(dim, features)

    def forward(self, series):
        return self.outputs(self.attention(self.inputs(series)))


def output_shape(model, *input_shape):
    """Ask for the shape of the output without computing it, to allocate the table of the results."""
    with FakeTensorMode() as mode, torch.no_grad():
        parameters = {name: mode.from_tensor(value) for name, value in model.named_parameters()}
        return tuple(functional_call(model, parameters, torch.empty(input_shape)).shape)


def train(model, steps, length=20):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        series = torch.randn(8, length + 1, 5).cumsum(1)
        loss = F.mse_loss(model(series[:, :-1]), series[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Forecaster()
    shape = output_shape(model, 8, 20, 5)
    print("every forecast has the shape", shape)
    print("loss", round(train(model, int(os.environ.get("STEPS", "40"))), 3))


if __name__ == "__main__":
    main()
