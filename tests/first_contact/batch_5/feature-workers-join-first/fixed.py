import os

import torch
import torch.multiprocessing as mp


def spectral_features(signal, bins=16):
    spectrum = torch.fft.rfft(signal).abs()
    return torch.nn.functional.adaptive_avg_pool1d(spectrum[None], bins)[0]


def extract(rank, signals, queue):
    torch.set_num_threads(1)
    features = torch.stack([spectral_features(signal) for signal in signals])
    queue.put((rank, features.numpy()))


def parallel_features(signals, n_workers=2):
    context = mp.get_context("fork")
    queue = context.Queue()
    workers = []
    for rank, chunk in enumerate(signals.chunk(n_workers)):
        worker = context.Process(target=extract, args=(rank, chunk, queue))
        worker.start()
        workers.append(worker)
    for worker in workers:
        worker.join()
    parts = {}
    for _ in workers:
        rank, features = queue.get()
        parts[rank] = torch.from_numpy(features)
    return torch.cat([parts[rank] for rank in sorted(parts)])


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    signals = torch.randn(2 * int(os.environ.get("STEPS", "40")), 256)
    features = parallel_features(signals)
    print("features", tuple(features.shape), "mean", features.mean().item())
