import os

import torch
from torch import nn

from neurons import Leaky, reset


class SpikingClassifier(nn.Module):
    def __init__(self, num_inputs=32, num_hidden=64, num_outputs=4, num_steps=8):
        super().__init__()
        self.num_steps = num_steps
        self.net = nn.Sequential(
            nn.Linear(num_inputs, num_hidden),
            Leaky(beta=0.9),
            nn.Linear(num_hidden, num_outputs),
            Leaky(beta=0.9, output=True),
        )

    def forward(self, x):
        reset(self.net)
        spk_rec, mem_rec = [], []
        for _ in range(self.num_steps):
            spk, mem = self.net(x)
            spk_rec.append(spk)
            mem_rec.append(mem)
        return torch.stack(spk_rec), torch.stack(mem_rec)


def batches(n, size=32):
    centres = torch.randn(4, 32)
    for _ in range(n):
        targets = torch.randint(0, 4, (size,))
        yield centres[targets] + 0.5 * torch.randn(size, 32), targets


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = SpikingClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loss_fn = nn.CrossEntropyLoss()
    for data, targets in batches(int(os.environ.get("STEPS", "40"))):
        spk_rec, mem_rec = model(data)
        loss = sum(loss_fn(mem, targets) for mem in mem_rec)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy = (spk_rec.sum(0).argmax(1) == targets).float().mean()
    print(f"loss {loss.item():.3f} accuracy {accuracy.item():.2f}")


if __name__ == "__main__":
    main()
