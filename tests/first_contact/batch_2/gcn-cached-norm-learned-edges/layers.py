import torch
from torch import nn


def gcn_norm(edge_index, edge_weight, num_nodes):
    row, col = edge_index
    degree = torch.zeros(num_nodes).scatter_add(0, col, edge_weight) + 1.0
    inv_sqrt = degree.rsqrt()
    return inv_sqrt[row] * edge_weight * inv_sqrt[col]


class GCNConv(nn.Module):
    def __init__(self, in_channels, out_channels, cached=False):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.cached = cached
        self._cached_norm = None

    def forward(self, x, edge_index, edge_weight):
        norm = self._cached_norm
        if norm is None:
            norm = gcn_norm(edge_index, edge_weight, x.size(0))
            if self.cached:
                self._cached_norm = norm
        row, col = edge_index
        messages = norm[:, None] * self.lin(x)[row]
        return torch.zeros(x.size(0), messages.size(1)).index_add(0, col, messages) + self.bias
