"""Synthetic recordings of 8 seconds with one tone somewhere in them."""
import torch

SAMPLE_RATE = 16_000


def load_recording(index, seconds=8):
    generator = torch.Generator().manual_seed(index)
    waveform = 0.05 * torch.randn(1, seconds * SAMPLE_RATE, generator=generator)
    label = index % 3
    onset = int(torch.randint(0, (seconds - 1) * SAMPLE_RATE, (), generator=generator))
    time = torch.arange(SAMPLE_RATE // 4) / SAMPLE_RATE
    waveform[0, onset : onset + len(time)] += torch.sin(6.2832 * (300 + 400 * label) * time)
    return waveform, onset, label
