import gc
import os
from collections import deque

import torch
from torch import nn


def extract_tensors_with_grads(output, grad, output_tensors, grad_tensors):
    if isinstance(output, torch.Tensor):
        if output.requires_grad:
            output_tensors.append(output)
            grad_tensors.append(grad)
    elif isinstance(output, (tuple, list)):
        for value, value_grad in zip(output, grad):
            extract_tensors_with_grads(value, value_grad, output_tensors, grad_tensors)
    elif isinstance(output, dict):
        for key in output:
            extract_tensors_with_grads(output[key], grad[key], output_tensors, grad_tensors)


def stage_backward(stage_output, output_grads, input_values):
    """Backward pass of one pipeline stage, whose output may be any nest of tuples, lists and dictionaries."""
    output_tensors, grad_tensors = [], []
    extract_tensors_with_grads(stage_output, output_grads, output_tensors, grad_tensors)
    torch.autograd.backward(output_tensors, grad_tensors)
    return [value.grad for value in input_values]


class FirstStage(nn.Module):
    def __init__(self, vocab=50, dim=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Sequential(nn.Linear(dim, dim), nn.GELU())

    def forward(self, tokens):
        embedded = self.embed(tokens)
        return {"hidden": self.mix(embedded), "skip": (embedded,)}


class LastStage(nn.Module):
    def __init__(self, vocab=50, dim=48):
        super().__init__()
        self.head = nn.Linear(dim, vocab)

    def forward(self, hidden, skip, targets):
        return nn.functional.cross_entropy(self.head(hidden + skip).flatten(0, 1), targets.flatten())


class Schedule:
    """Gradient accumulation over micro batches; automatic garbage collection would make the ranks wait for each other."""

    def __init__(self, gc_every=500):
        gc.disable()
        self.first, self.last = FirstStage(), LastStage()
        params = [*self.first.parameters(), *self.last.parameters()]
        self.optimizer = torch.optim.SGD(params, lr=0.1)
        self.gc_every = gc_every
        self.losses = deque(maxlen=20)

    def step(self, number, tokens, micro_batches=2):
        self.optimizer.zero_grad()
        for chunk in tokens.chunk(micro_batches):
            output = self.first(chunk[:, :-1])
            hidden = output["hidden"].detach().requires_grad_()
            skip = output["skip"][0].detach().requires_grad_()
            loss = self.last(hidden, skip, chunk[:, 1:]) / micro_batches
            grads = stage_backward([loss], [None], [hidden, skip])
            stage_backward(output, {"hidden": grads[0], "skip": (grads[1],)}, [])
            self.losses.append(loss.item())
        self.optimizer.step()
        if (number + 1) % self.gc_every == 0:
            gc.collect()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    schedule = Schedule()
    for number in range(int(os.environ.get("STEPS", "40"))):
        start = torch.randint(0, 50, (16, 1))
        schedule.step(number, (start + torch.arange(17)) % 50)
    print("loss", round(sum(schedule.losses), 3))


if __name__ == "__main__":
    main()
