import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from recordings import SAMPLE_RATE, load_recording


class KeywordClips(Dataset):
    def __init__(self, n_recordings, clip_seconds=0.25):
        self.clip = int(clip_seconds * SAMPLE_RATE)
        self.clips = []
        self.labels = []
        for index in range(n_recordings):
            waveform, onset, label = load_recording(index)
            self.add(waveform, onset, label)

    def add(self, waveform, onset, label):
        segment = waveform[:, onset : onset + self.clip].clone()
        self.clips.append(segment)
        self.labels.append(label)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        return self.clips[index], self.labels[index]


class KeywordNet(nn.Module):
    def __init__(self, n_keywords=3):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 16, 80, stride=16), nn.ReLU(), nn.Conv1d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1)
        )
        self.classifier = nn.Linear(32, n_keywords)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dataset = KeywordClips(int(os.environ.get("STEPS", "40")))
    loader = DataLoader(dataset, batch_size=8, shuffle=True)
    model = KeywordNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(2):
        for clips, labels in loader:
            loss = nn.functional.cross_entropy(model(clips), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print("clips", len(dataset), "loss", round(loss.item(), 3))


if __name__ == "__main__":
    main()
