import os
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ForecastConfig:
    stations: int = 8
    window: int = 24
    hidden: int = 32
    lr: float = 5e-3
    windows: int = int(os.environ.get("STEPS", "40"))


class StatefulForecaster(nn.Module):
    """Predicts the next hour's load of every station; remembers where the previous window ended."""

    def __init__(self, config):
        super().__init__()
        self.rnn = nn.LSTM(config.stations, config.hidden, num_layers=2)
        self.head = nn.Linear(config.hidden, config.stations)
        self.state = None

    def forget(self):
        self.state = None

    def forward(self, hours):
        features, state = self.rnn(hours, self.state)
        self.state = tuple(part.detach() for part in state)
        return self.head(features)


def measured_load(config):
    hours = torch.arange(config.windows * config.window + 1, dtype=torch.float32)
    phase = torch.linspace(0, 2, config.stations)
    daily = torch.sin(hours[:, None] * 2 * torch.pi / 24 + phase)
    weekly = 0.4 * torch.sin(hours[:, None] * 2 * torch.pi / 168)
    return daily + weekly + 0.05 * torch.randn(len(hours), config.stations)


def windows(series, length):
    for start in range(0, len(series) - 1, length):
        chunk = series[start : start + length + 1]
        yield chunk[:-1].unsqueeze(1), chunk[1:].unsqueeze(1)


class Fitter:
    def __init__(self, model, config):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
        self.errors = []

    def fit_one(self, past, future):
        self.optimizer.zero_grad()
        error = nn.functional.smooth_l1_loss(self.model(past), future)
        error.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.errors.append(error.item())


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = ForecastConfig()
    fitter = Fitter(StatefulForecaster(config), config)
    for past, future in windows(measured_load(config), config.window):
        fitter.fit_one(past, future)
    print(f"first error {fitter.errors[0]:.3f}, last {fitter.errors[-1]:.3f}")


if __name__ == "__main__":
    main()
