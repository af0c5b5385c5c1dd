import copy
import os
import random
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


def make_model():
    return nn.Sequential(nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))


@dataclass
class Client:
    number: int
    x: torch.Tensor
    y: torch.Tensor
    control: dict = field(default_factory=dict)

    def fit(self, weights, server_control, lr=0.1, epochs=2):
        model = make_model()
        model.load_state_dict(weights)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for _ in range(epochs):
            optimizer.zero_grad()
            F.cross_entropy(model(self.x), self.y).backward()
            for name, p in model.named_parameters():
                p.grad.add_(server_control[name] - self.control.get(name, 0.0))
            optimizer.step()
        delta = {}
        with torch.no_grad():
            for name, p in model.named_parameters():
                old = self.control.get(name, torch.zeros_like(p))
                new = old - server_control[name] + (weights[name] - p) / (lr * epochs)
                self.control[name], delta[name] = new, new - old
        return {name: value.clone() for name, value in model.state_dict().items()}, delta


class Server:
    def __init__(self, clients):
        self.clients = clients
        self.model = make_model()
        self.control = {name: torch.zeros_like(p) for name, p in self.model.named_parameters()}
        self.best = (float("inf"), None)

    def round(self, sampled):
        weights = copy.deepcopy(self.model.state_dict())
        updates = [client.fit(weights, self.control) for client in sampled]
        total = {name: torch.zeros_like(value, dtype=torch.float32) for name, value in weights.items()}
        for state, delta in updates:
            for name, value in state.items():
                total[name] += value / len(updates)
            for name, change in delta.items():
                self.control[name] = self.control[name] + change / len(self.clients)
        self.model.load_state_dict({name: value.to(weights[name].dtype) for name, value in total.items()})

    @torch.no_grad()
    def evaluate(self, x, y):
        self.model.eval()
        loss = F.cross_entropy(self.model(x), y)
        self.model.train()
        if loss < self.best[0]:
            self.best = (loss.item(), copy.deepcopy(self.model.state_dict()))
        return loss


def main():
    torch.manual_seed(0)
    random.seed(0)
    torch.set_num_threads(1)
    rule = torch.randn(10, 4)
    clients = []
    for number in range(8):
        x = torch.randn(48, 10) + 0.3 * torch.randn(10)
        clients.append(Client(number, x, (x @ rule).argmax(1)))
    server, test = Server(clients), torch.randn(256, 10)
    losses = []
    for _ in range(int(os.environ.get("STEPS", "40"))):
        server.round(random.sample(clients, 4))
        losses.append(float(server.evaluate(test, (test @ rule).argmax(1))))
    server.model.load_state_dict(server.best[1])
    print("first", round(losses[0], 3), "best", round(server.best[0], 3))


if __name__ == "__main__":
    main()
