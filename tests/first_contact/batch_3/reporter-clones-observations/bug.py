import os
from collections import defaultdict
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn


class Reporter:
    def __init__(self):
        self.observation = {}
        self.prefix = []

    @contextmanager
    def scope(self, name):
        self.prefix.append(name)
        yield self
        self.prefix.pop()

    def report(self, values):
        for key, value in values.items():
            if isinstance(value, torch.Tensor):
                value = value.clone()
            self.observation["/".join([*self.prefix, key])] = value

    def flush(self):
        observation, self.observation = self.observation, {}
        return observation


class LogReport:
    def __init__(self, trigger):
        self.trigger = trigger
        self.pending = defaultdict(list)
        self.log = []

    def __call__(self, iteration, observation):
        for key, value in observation.items():
            self.pending[key].append(value)
        if (iteration + 1) % self.trigger == 0:
            self.log.append({key: sum(map(float, values)) / len(values) for key, values in self.pending.items()})
            self.pending.clear()


class Denoiser(nn.Module):
    def __init__(self, reporter, width=48):
        super().__init__()
        self.reporter = reporter
        self.encoder = nn.Sequential(nn.Conv1d(1, width, 9, padding=4), nn.ReLU())
        self.decoder = nn.Conv1d(width, 1, 9, padding=4)

    def forward(self, noisy, clean):
        code = self.encoder(noisy)
        restored = self.decoder(code)
        mse = F.mse_loss(restored, clean)
        psnr = -10 * torch.log10(F.mse_loss(restored.clamp(-1, 1), clean))
        with self.reporter.scope("denoiser"):
            self.reporter.report({"mse": mse, "psnr": psnr, "batch": len(noisy)})
        return mse + 0.01 * code.abs().mean()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    reporter = Reporter()
    model = Denoiser(reporter)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    report = LogReport(trigger=1000)
    for iteration in range(int(os.environ.get("STEPS", "40"))):
        clean = torch.sin(torch.linspace(0, 20, 256) + 6 * torch.rand(16, 1, 1))
        loss = model(clean + 0.2 * torch.randn_like(clean), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report(iteration, reporter.flush())
    print("entries", len(report.log), "pending", len(report.pending["denoiser/mse"]), "loss", loss.item())


main()
