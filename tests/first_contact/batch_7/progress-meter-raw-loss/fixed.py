"""Trains a small species classifier; the loop follows the well-known ImageNet script."""

import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn


class AverageMeter:
    """Computes and stores the average and current value."""

    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return f"{self.name} {self.val:.3f} ({self.avg:.3f})"


class LabelSmoothing(nn.Module):
    def __init__(self, epsilon=0.1):
        super().__init__()
        self.epsilon = epsilon

    def forward(self, logits, target):
        return F.cross_entropy(logits, target, label_smoothing=self.epsilon), F.cross_entropy(logits, target)


def loader(batches, batch_size, classes):
    centres = torch.randn(classes, 48)
    for _ in range(batches):
        target = torch.randint(classes, (batch_size,))
        yield centres[target] + 0.5 * torch.randn(batch_size, 48), target


def train(batches, model, criterion, optimizer, args):
    losses, nlls, top1 = AverageMeter("Loss"), AverageMeter("Nll"), AverageMeter("Acc@1")
    model.train()
    for i, (images, target) in enumerate(batches):
        output = model(images)
        loss, nll = criterion(output, target)
        acc1 = (output.argmax(1) == target).float().mean()

        losses.update(loss.item(), images.size(0))
        nlls.update(nll.item(), images.size(0))
        top1.update(acc1.item(), images.size(0))

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % args.print_freq == 0:
            print(f"[{i:3d}/{args.batches}]", losses, nlls, top1, sep="  ")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=int(os.environ.get("STEPS", "40")))
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--print-freq", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(48, 128), nn.ReLU(), nn.Linear(128, args.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(loader(args.batches, args.batch_size, args.classes), model, LabelSmoothing(), optimizer, args)


if __name__ == "__main__":
    main()
