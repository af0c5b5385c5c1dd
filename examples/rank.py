"""A function whose peak memory can be lower: `hidden` stays allocated after its last use."""

import torch


def rank(batch):
    hidden = torch.relu(batch @ torch.ones(256, 4096))
    scores = hidden.sum(1)
    pairs = scores[:, None] - scores[None, :]
    return (pairs > 0).sum(1)


rank(torch.ones(2048, 256))
