import os

import torch
from torch import nn


class TBPTT:
    """Truncated backpropagation: every k1 steps, k2 steps back; one update for each sequence."""

    def __init__(self, cell, head, loss_fn, k1, k2, optimizer):
        self.cell = cell
        self.head = head
        self.loss_fn = loss_fn
        self.k1 = k1
        self.k2 = k2
        self.retain_graph = k1 < k2
        self.optimizer = optimizer

    def train(self, sequence, init_state):
        states = [(None, init_state)]
        losses = []
        self.optimizer.zero_grad()
        for j, (inp, target) in enumerate(sequence):
            state = states[-1][1].detach()
            state.requires_grad = True
            new_state = self.cell(inp, state)
            output = self.head(new_state)
            states.append((state, new_state))
            while len(states) > self.k2:
                del states[0]
            if (j + 1) % self.k1 == 0:
                loss = self.loss_fn(output, target)
                loss.backward(retain_graph=self.retain_graph)
                for i in range(self.k2 - 1):
                    if len(states) < i + 2 or states[-i - 2][0] is None:
                        break
                    grad = states[-i - 1][0].grad
                    states[-i - 2][1].backward(grad, retain_graph=self.retain_graph)
                losses.append(loss.item())
        self.optimizer.step()
        return sum(losses) / len(losses)


def echo_task(n, delay=3, batch=16):
    bits = torch.randint(0, 2, (n + delay, batch, 1)).float()
    for t in range(delay, n + delay):
        yield bits[t], bits[t - delay]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cell, head = nn.GRUCell(1, 24), nn.Linear(24, 1)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=2e-2)
    runner = TBPTT(cell, head, nn.BCEWithLogitsLoss(), k1=4, k2=7, optimizer=optimizer)
    losses = [runner.train(echo_task(24), torch.zeros(16, 24)) for _ in range(int(os.environ.get("STEPS", "40")))]
    print("sequences", len(losses), "first", losses[0], "last", losses[-1])


main()
