import os

import torch
import torch.nn.functional as F
from torch import nn


def suppress_border(heatmap, width=2):
    """Keypoints at the border of the image have no full patch around them."""
    heatmap = heatmap.clone()
    heatmap[:, :, :width, :] = 0
    heatmap[:, :, -width:, :] = 0
    heatmap[:, :, :, :width] = 0
    heatmap[:, :, :, -width:] = 0
    return heatmap


class KeypointDetector(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(inplace=True),
        )
        self.score = nn.Conv2d(channels, 1, 1)
        self.descriptor = nn.Conv2d(channels, 8, 1)

    def forward(self, images):
        features = self.encoder(images)
        heatmap = torch.sigmoid(self.score(features))
        heatmap = suppress_border(heatmap)
        return heatmap, F.normalize(self.descriptor(features), dim=1)


class CornerScenes:
    """Images of one bright rectangle each, with the corners as targets."""

    def __init__(self, size=24, batch_size=8):
        self.size = size
        self.batch_size = batch_size

    def __call__(self, steps):
        for _ in range(steps):
            images = 0.1 * torch.randn(self.batch_size, 1, self.size, self.size)
            targets = torch.zeros_like(images)
            for n in range(self.batch_size):
                top, left = torch.randint(3, self.size // 2, (2,)).tolist()
                bottom, right = torch.randint(self.size // 2, self.size - 3, (2,)).tolist()
                images[n, 0, top:bottom, left:right] += 1.0
                for y in (top, bottom - 1):
                    for x in (left, right - 1):
                        targets[n, 0, y, x] = 1.0
            yield images, targets


def detector_loss(heatmap, descriptors, targets):
    detection = F.binary_cross_entropy(heatmap, targets, weight=1 + 30 * targets)
    spread = descriptors.mean(dim=(2, 3)).pow(2).sum(1).mean()
    return detection + 0.1 * spread


if __name__ == "__main__":
    torch.manual_seed(3)
    torch.set_num_threads(1)
    detector = KeypointDetector()
    optimizer = torch.optim.AdamW(detector.parameters(), lr=2e-3)
    running = 0.0
    for images, targets in CornerScenes()(int(os.environ.get("STEPS", "40"))):
        loss = detector_loss(*detector(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.item()
    print(f"running loss {running:.4f}")
