import os

import torch
import torch.nn.functional as F
from torch import nn


class FeatureExtractor:
    def __init__(self, network, layers):
        self.network = network.eval().requires_grad_(False)
        self.features = {}
        self.handles = []
        for name in layers:
            layer = network.get_submodule(name)
            self.handles.append(layer.register_forward_hook(self.keep(name)))

    def keep(self, name):
        def hook(module, inputs, output):
            self.features[name] = output

        return hook

    def __call__(self, image):
        self.network(image)
        return dict(self.features)

    def close(self):
        for handle in self.handles:
            handle.remove()
        self.features.clear()


def gram(x):
    x = x.flatten(2)
    return x @ x.transpose(1, 2) / x.shape[1] / x.shape[2]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU()
    )
    extractor = FeatureExtractor(network, ["1", "4"])
    content = torch.rand(1, 3, 32, 32)
    style = (torch.arange(32) // 4 % 2).float().expand(1, 3, 32, 32)
    content_target = extractor(content)["4"]
    style_targets = {name: gram(f) for name, f in extractor(style).items()}
    image = content.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([image], lr=0.02)
    history = []
    for step in range(int(os.environ.get("STEPS", "40"))):
        features = extractor(image)
        content_loss = F.mse_loss(features["4"], content_target)
        style_loss = sum(F.mse_loss(gram(f), style_targets[name]) for name, f in features.items())
        loss = content_loss + 1000.0 * style_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            image.clamp_(0, 1)
        history.append((content_loss.item(), style_loss.item()))
    extractor.close()
    print("first", history[0], "last", history[-1])


if __name__ == "__main__":
    main()
