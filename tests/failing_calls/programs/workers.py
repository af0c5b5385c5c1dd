"""A DataLoader with two worker processes, and an epoch more."""

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)) ** 2


loader = DataLoader(Squares(), batch_size=2, num_workers=2)
for epoch in range(2):
    print(epoch, [batch.sum().item() for batch in loader])
