import os

import torch
from torch import nn


class TreeEncoder(nn.Module):
    """Combines the leaves of a binary tree bottom up; row i of `states` is the state of node i."""

    def __init__(self, symbols, dim=16):
        super().__init__()
        self.dim = dim
        self.embed = nn.Embedding(symbols, dim)
        self.left = nn.Linear(dim, dim)
        self.right = nn.Linear(dim, dim)
        self.gate = nn.Linear(2 * dim, dim)

    def combine(self, left, right):
        gate = torch.sigmoid(self.gate(torch.cat([left, right])))
        return gate * torch.tanh(self.left(left)) + (1 - gate) * torch.tanh(self.right(right))

    def forward(self, leaves, children):
        states = torch.zeros(len(leaves) + len(children), self.dim)
        states[: len(leaves)] = self.embed(leaves)
        for node, (i, j) in enumerate(children, start=len(leaves)):
            left, right = states[i], states[j]
            states[node] = self.combine(left, right)
        return states[-1]


def random_tree(n_leaves, generator):
    open_nodes, children = list(range(n_leaves)), []
    while len(open_nodes) > 1:
        k = int(torch.randint(len(open_nodes) - 1, (1,), generator=generator))
        children.append((open_nodes[k], open_nodes.pop(k + 1)))
        open_nodes[k] = n_leaves + len(children) - 1
    return children


def main():
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    encoder = TreeEncoder(symbols=10)
    head = nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=3e-3)
    for step in range(int(os.environ.get("STEPS", "40"))):
        leaves = torch.randint(10, (6,), generator=generator)
        prediction = head(encoder(leaves, random_tree(6, generator)))
        loss = (prediction - leaves.float().mean()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
