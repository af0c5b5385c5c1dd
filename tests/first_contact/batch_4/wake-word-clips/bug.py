import contextlib
import os
import time

import torch
from torch import nn

RATE = 16000
CHUNK = 2 * RATE
CLIP = RATE // 20


class KeywordSpotter(nn.Module):
    def __init__(self, bands=16):
        super().__init__()
        self.frontend = nn.Conv1d(1, bands, 400, stride=160)
        self.classifier = nn.Sequential(nn.ReLU(), nn.Conv1d(bands, 1, 5, padding=2))

    def forward(self, audio):
        return self.classifier(self.frontend(audio[None, None])).squeeze()


class Event:
    __slots__ = ("at", "score", "clip")

    def __init__(self, at, score, clip):
        self.at, self.score, self.clip = at, score, clip


class EventLog:
    def __init__(self):
        self.events = []

    def add(self, event):
        self.events.append(event)

    def report(self):
        loudest = max(self.events, key=lambda e: e.clip.abs().max().item())
        return f"{len(self.events)} events, loudest at {loudest.at / RATE:.1f} s"


@contextlib.contextmanager
def stopwatch(totals, name):
    start = time.perf_counter()
    try:
        yield
    finally:
        totals[name] = totals.get(name, 0.0) + time.perf_counter() - start


def microphone(chunks, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(chunks):
        yield torch.randn(CHUNK, generator=generator)


@torch.inference_mode()
def listen(model, chunks, log):
    position, totals = 0, {}
    for chunk in microphone(chunks):
        with stopwatch(totals, "score"):
            scores = model(chunk)
        best = int(scores.argmax())
        start = min(best * 160, CHUNK - CLIP)
        log.add(Event(position + start, scores[best].item(), chunk[start : start + CLIP]))
        position += CHUNK
    return totals


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    log = EventLog()
    totals = listen(KeywordSpotter().eval(), int(os.environ.get("STEPS", "40")), log)
    print(log.report(), "timed" if totals else "")
