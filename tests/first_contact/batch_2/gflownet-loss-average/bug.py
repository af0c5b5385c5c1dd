import argparse
import os

import torch
from torch import nn


class GFlowNetAgent:
    def __init__(self, n_states=16, hidden=64, lr=1e-3, ema_alpha=0.5):
        self.n_states = n_states
        self.policy = nn.Sequential(
            nn.Linear(n_states, hidden), nn.LeakyReLU(),
            nn.Linear(hidden, hidden), nn.LeakyReLU(),
            nn.Linear(hidden, n_states),
        )
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.ema_alpha = ema_alpha
        self.term_ema = None
        self.flow_ema = None

    def sample_batch(self, size):
        states = torch.randint(0, self.n_states, (size,))
        done = states == self.n_states - 1
        rewards = torch.exp(-states.float() / 4)
        return nn.functional.one_hot(states, self.n_states).float(), done, rewards

    def flowmatch_loss(self, batch):
        states, done, rewards = batch
        inflow = torch.logsumexp(self.policy(states), 1)
        outflow = torch.where(done, rewards.log(), self.policy(states.roll(1, 1)).logsumexp(1))
        error = (inflow - outflow).pow(2)
        weight = done.float()
        term = (error * weight).sum() / (weight.sum() + 1e-20)
        flow = (error * (1 - weight)).sum() / ((1 - weight).sum() + 1e-20)
        return term, flow

    def update_averages(self, term, flow):
        if self.term_ema is None:
            self.term_ema, self.flow_ema = term, flow
        else:
            self.term_ema = self.ema_alpha * term + (1 - self.ema_alpha) * self.term_ema
            self.flow_ema = self.ema_alpha * flow + (1 - self.ema_alpha) * self.flow_ema

    def train(self, n_steps, batch_size):
        for it in range(n_steps):
            term, flow = self.flowmatch_loss(self.sample_batch(batch_size))
            loss = term + flow
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.update_averages(term, flow)
            if it % 20 == 0:
                print(f"it {it} term {float(self.term_ema):.3f} flow {float(self.flow_ema):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", "40")))
    parser.add_argument("--batch-size", type=int, default=100)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    GFlowNetAgent().train(args.steps, args.batch_size)
