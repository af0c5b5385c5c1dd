"""Scores that were turned into weights."""

import torch


def attend(q, k, v):
    scores = q @ k.transpose(-1, -2)
    weights = torch.softmax(scores, dim=-1)
    mixed = weights @ v
    return torch.cat([mixed, mixed, mixed], dim=-1).relu()


def main():
    torch.manual_seed(0)
    q, k, v = (torch.randn(8, 256, 32) for _ in range(3))
    with torch.no_grad():
        out = attend(q, k, v)
        spread = torch.einsum("bij,bkj->bik", out, out)
        return spread.mean().item()
