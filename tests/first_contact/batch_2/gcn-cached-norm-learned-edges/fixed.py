import os

import torch
import torch.nn.functional as F
from layers import GCNConv
from torch import nn


class EdgeWeightedGCN(nn.Module):
    def __init__(self, n_edges, in_dim, hidden, n_classes):
        super().__init__()
        self.edge_logits = nn.Parameter(torch.zeros(n_edges))
        self.conv1 = GCNConv(in_dim, hidden)
        self.conv2 = GCNConv(hidden, n_classes)

    def forward(self, x, edge_index):
        edge_weight = torch.sigmoid(self.edge_logits)
        x = F.relu(self.conv1(x, edge_index, edge_weight))
        x = F.dropout(x, p=0.5, training=self.training)
        return self.conv2(x, edge_index, edge_weight)


def random_graph(nodes=120, edges=600, in_dim=16, classes=4):
    edge_index = torch.randint(0, nodes, (2, edges))
    return torch.randn(nodes, in_dim), edge_index, torch.randint(0, classes, (nodes,))


def run():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    x, edge_index, y = random_graph()
    train_mask = torch.rand(len(y)) < 0.3
    model = EdgeWeightedGCN(edge_index.shape[1], x.shape[1], 32, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(int(os.environ.get("STEPS", "40"))):
        model.train()
        optimizer.zero_grad()
        out = model(x, edge_index)
        loss = F.cross_entropy(out[train_mask], y[train_mask])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x, edge_index).argmax(1) == y)[train_mask].float().mean()
    print(f"loss {loss.item():.3f} train accuracy {accuracy.item():.2f}")


if __name__ == "__main__":
    run()
