"""Mean-teacher consistency training for a small image classifier."""
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


class WeightEMA(object):
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}

    def step(self, model):
        one_minus_decay = 1.0 - self.decay
        for name, param in model.named_parameters():
            self.shadow[name] = self.shadow[name] * self.decay + param * one_minus_decay

    def predict(self, model, x):
        with torch.no_grad():
            return functional_call(model, self.shadow, (x,))


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 16, 10))


def jitter(x, sigma=0.1):
    return x + sigma * torch.randn_like(x)


if __name__ == '__main__':
    torch.manual_seed(0)
    torch.set_num_threads(1)
    student = make_model()
    ema = WeightEMA(student)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
    for it in range(int(os.environ.get('STEPS', 40))):
        labelled, y = torch.randn(16, 1, 16, 16), torch.randint(0, 10, (16,))
        unlabelled = torch.randn(32, 1, 16, 16)
        target = ema.predict(student, jitter(unlabelled)).softmax(1)
        consistency = F.mse_loss(student(jitter(unlabelled)).softmax(1), target)
        loss = F.cross_entropy(student(labelled), y) + 10 * consistency
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.step(student)
    print('loss %.3f consistency %.4f' % (loss.item(), consistency.item()))
