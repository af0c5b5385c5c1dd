import os
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import torch
from torch import nn


class Scorer:
    def __init__(self, model, workers=2):
        self.model = model.eval()
        self.workers = workers

    def score_document(self, key, tokens):
        window = torch.as_tensor(tokens, dtype=torch.float32).unfold(0, 16, 8)
        logits = self.model(window)
        return key, logits.softmax(-1).mean(0).numpy()

    def score(self, documents):
        results = {}
        with torch.no_grad():
            with ThreadPoolExecutor(max_workers=self.workers) as executor:
                jobs = [executor.submit(self.score_document, key, tokens) for key, tokens in documents.items()]
                for job in as_completed(jobs):
                    key, probabilities = job.result()
                    results[key] = probabilities
        return results


def make_documents(count, seed=0):
    rng = np.random.default_rng(seed)
    return {f"doc-{i:03d}": rng.normal(size=rng.integers(32, 128)) for i in range(count)}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))
    scores = Scorer(model).score(make_documents(int(os.environ.get("STEPS", "40"))))
    winners = np.bincount([int(p.argmax()) for p in scores.values()], minlength=3)
    print("documents per class", winners.tolist())


if __name__ == "__main__":
    main()
