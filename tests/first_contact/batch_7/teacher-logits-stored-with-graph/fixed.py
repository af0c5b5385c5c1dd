import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class SoftLabelDataset(Dataset):
    """Samples with the teacher's logits, which are computed once in advance."""

    def __init__(self, samples, labels, teacher, chunk=128):
        self.samples = samples
        self.labels = labels
        teacher.eval()
        with torch.no_grad():
            self.teacher_logits = torch.cat([teacher(part) for part in samples.split(chunk)])

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index], self.labels[index], self.teacher_logits[index]


def loss_fn_kd(outputs, labels, teacher_outputs, alpha=0.7, temperature=3.0):
    soft = F.kl_div(
        F.log_softmax(outputs / temperature, dim=1), F.softmax(teacher_outputs / temperature, dim=1), reduction="batchmean"
    )
    return alpha * temperature**2 * soft + (1 - alpha) * F.cross_entropy(outputs, labels)


def fit(model, batches, loss_fn, lr=2e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    total = count = 0
    for x, *targets in batches:
        loss = loss_fn(model(x), *targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        count += 1
    return total / count


def main():
    torch.manual_seed(11)
    torch.set_num_threads(1)
    steps, batch_size = int(os.environ.get("STEPS", "40")), 16
    samples = torch.randn(steps * batch_size, 20)
    labels = (samples[:, :4] ** 2).argmax(1)

    teacher = mlp(20, 128, 128, 4)
    print("teacher", round(fit(teacher, zip(samples.split(batch_size), labels.split(batch_size)), F.cross_entropy), 3))

    dataset = SoftLabelDataset(samples, labels, teacher)
    student = mlp(20, 24, 4)
    print("student", round(fit(student, DataLoader(dataset, batch_size, shuffle=True), loss_fn_kd), 3))


if __name__ == "__main__":
    main()
