import argparse
import logging
import os

import numpy as np
import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s")


class NaiveBayes(nn.Module):
    def __init__(self, num_classes, num_lfs, init_acc=0.9):
        super().__init__()
        self.num_classes = num_classes
        self.accuracy = nn.Parameter(torch.full((num_lfs,), float(np.log(init_acc / (1 - init_acc)))))
        self.propensity = nn.Parameter(torch.zeros(num_lfs))
        self.balance = nn.Parameter(torch.zeros(num_classes))

    def forward(self, votes):
        prior = self.balance - torch.logsumexp(self.balance, dim=0)
        z = torch.nn.functional.softplus(self.accuracy) + torch.nn.functional.softplus(self.propensity)
        scores = []
        for k in range(self.num_classes):
            right = (votes == k + 1).float()
            wrong = ((votes != k + 1) & (votes != 0)).float()
            scores.append(prior[k] + (right * self.accuracy - wrong * z).sum(1))
        return torch.logsumexp(torch.stack(scores, dim=1), dim=1)


def train(model, votes, config):
    optimizer = torch.optim.SGD(model.parameters(), lr=config.step_size)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=50)
    for epoch in range(config.epochs):
        running_loss = 0.0
        order = torch.randperm(len(votes))
        for i, index in enumerate(order.split(config.batch_size)):
            optimizer.zero_grad()
            loss = -torch.mean(model(votes[index]))
            loss.backward()
            optimizer.step()
            running_loss += loss
        scheduler.step()
        logging.info("epoch %d loss %.4f", epoch + 1, running_loss / (i + 1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--step-size", type=float, default=0.01)
    config = parser.parse_args()
    steps = int(os.environ.get("STEPS", "40"))
    torch.manual_seed(1)
    votes = torch.randint(0, 4, (config.batch_size * steps, 12))
    train(NaiveBayes(3, 12), votes, config)
