import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    """Moves large saved tensors to host memory during the forward pass and brings them back for the backward pass."""

    def __init__(self, min_offload_size=1024):
        self.min_offload_size = min_offload_size
        self.tracker = {}
        self.tensor_id = 0
        super().__init__(self.pack_tensor, self.unpack_tensor)

    def __enter__(self):
        self.tracker.clear()
        return super().__enter__()

    def pack_tensor(self, activation):
        if activation.numel() * activation.element_size() < self.min_offload_size:
            return activation
        self.tensor_id += 1
        self.tracker[self.tensor_id] = activation.to("cpu", copy=True)
        return self.tensor_id

    def unpack_tensor(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        return self.tracker.pop(packed)


class Expert(nn.Sequential):
    def __init__(self, dim):
        super().__init__(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))


class RoutedBlock(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.router = nn.Linear(dim, 2)
        self.experts = nn.ModuleList([Expert(dim), Expert(dim)])
        self.load_head = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, 1))

    def forward(self, x):
        gates = self.router(x).softmax(-1)
        mixed = sum(gates[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))
        return x + mixed, self.load_head(mixed).squeeze(-1)


class SFTTrainer:
    def __init__(self, model, lr=1e-2, balance_every=4):
        self.model, self.balance_every = model, balance_every
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.maybe_activation_offload_context = OffloadActivations()

    def training_step(self, step, x, targets):
        self.optimizer.zero_grad()
        with self.maybe_activation_offload_context:
            outputs, load = self.model(x)
            loss = F.mse_loss(outputs, targets)
            if step % self.balance_every == 0:
                loss = loss + 0.1 * load.pow(2).mean()
            loss.backward()
        self.optimizer.step()
        return loss.item(), load.detach().mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    trainer = SFTTrainer(RoutedBlock())
    for step in range(int(os.environ.get("STEPS", "40"))):
        x = torch.randn(64, 32)
        loss, load = trainer.training_step(step, x, x.roll(1, dims=1))
    tracker = trainer.maybe_activation_offload_context.tracker
    print(f"loss {loss:.3f} load {load:.3f} tensors still in the tracker: {len(tracker)}")


if __name__ == "__main__":
    main()
