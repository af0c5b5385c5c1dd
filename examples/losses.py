"""An error: two losses share a part of the graph, and the first backward() frees it."""

import torch

encoder, reader, critic = (torch.nn.Linear(8, 8) for _ in range(3))


def train_step(batch):
    code = torch.tanh(encoder(batch))
    reading = reader(code).square().mean()
    score = critic(code).square().mean()
    reading.backward()
    score.backward()


train_step(torch.randn(4, 8))
