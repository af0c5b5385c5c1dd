import os
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn


class GradSampler:
    """Gradients of each sample for the linear layers of a model, from the inputs and the gradients of the outputs."""

    def __init__(self, model):
        self.model = model
        self.activations = defaultdict(list)
        self.grad_sample = {}
        self.handles = []
        for name, layer in model.named_modules():
            if isinstance(layer, nn.Linear):
                self.handles.append(layer.register_forward_hook(self._capture_activations(name)))
                self.handles.append(layer.register_full_backward_hook(self._capture_backprops(name)))

    def _capture_activations(self, name):
        def hook(layer, inputs, output):
            if layer.training:
                self.activations[name].append(inputs[0].detach())

        return hook

    def _capture_backprops(self, name):
        def hook(layer, grad_inputs, grad_outputs):
            activations = self.activations[name].pop()
            self.grad_sample[name] = torch.einsum("ni,nj->nji", activations, grad_outputs[0] * len(activations))

        return hook

    def clip_and_accumulate(self, max_norm):
        norms = sum(g.flatten(1).pow(2).sum(1) for g in self.grad_sample.values()).sqrt()
        factors = (max_norm / (norms + 1e-6)).clamp(max=1)
        for name, grads in self.grad_sample.items():
            self.model.get_submodule(name).weight.grad = torch.einsum("n,nji->ji", factors, grads) / len(factors)
        self.grad_sample.clear()


class DropoutNet(nn.Sequential):
    def __init__(self, inputs=30, hidden=64, classes=5):
        super().__init__(
            nn.LayerNorm(inputs),
            nn.Linear(inputs, hidden, bias=False),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(hidden, classes, bias=False),
        )


@torch.no_grad()
def uncertainty(model, x, samples=3):
    """Monte Carlo dropout: the model stays in training mode, so that each pass drops other units."""
    probs = torch.stack([F.softmax(model(x), dim=1) for _ in range(samples)])
    return probs.std(0).mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DropoutNet()
    sampler = GradSampler(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    held_out = torch.randn(64, 30)
    for step in range(int(os.environ.get("STEPS", "40"))):
        x = torch.randn(32, 30)
        optimizer.zero_grad()
        F.cross_entropy(model(x), x[:, :5].argmax(1)).backward()
        sampler.clip_and_accumulate(max_norm=1.0)
        optimizer.step()
        spread = uncertainty(model, held_out)
    waiting = sum(len(tensors) for tensors in sampler.activations.values())
    print(f"spread {spread:.3f}, activations that wait for their backward pass: {waiting}")


if __name__ == "__main__":
    main()
