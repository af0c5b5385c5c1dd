"""Streams with times, numbers and texts of our choice, written by the real writer, at once or while they are followed."""

from tenure.trace import events, writer

BEGAN = 4_000_000_000_000_000  # µs since 1970: no clock of today's has anything to say about it


class Made:
    """One process's stream. Rows are dicts; `time` is in seconds after the beginning."""

    def __init__(self, folder, pid=4242, command=("train.py", "--lr", "0.1"), **about):
        import json

        folder.mkdir(parents=True, exist_ok=True)
        told = {"version": "1", "pid": str(pid), "command": json.dumps(command), "clock_offset_ns": str(pid), **about}
        self.stream = writer.Stream(folder, f"events-{pid}", told)
        self.path = self.stream.path
        self._words = events.Dictionary()

    def write(self, *rows):
        """A batch of these."""
        columns = {}
        for name in {key for row in rows for key in row}:
            values = [row.get(name) for row in rows]
            if name in ("time", "last_use"):
                values = [None if value is None else BEGAN + round(value * 1e6) for value in values]
            columns[name] = values if name in events.NUMBERS else events.numbers(self._words[name], values)
        self.stream.write(self._words.batch(columns, len(rows)))

    def close(self):
        """The process ends in peace."""
        self.stream.close()

    def abandon(self):
        """The process is killed."""
        self.stream.abandon()


def birth(time, buffer, size, site, device="cpu", step=0, **more):
    """A buffer comes to be."""
    told = {
        "time": time,
        "event": "birth",
        "buffer": buffer,
        "bytes": size,
        "site": site,
        "device": device,
        "step": step,
    }
    return {**told, "framework": "torch", "stack": site, **more}


def end(time, buffer, step=0):
    """A buffer ends."""
    return {"time": time, "event": "end", "buffer": buffer, "step": step, "cause": "last reference"}


def done(time, step):
    """A step is done."""
    return {"time": time, "event": "step", "step": step}


def training(made, file, steps=60, *, device="cpu", scale=1, begin=0):
    """A model of 4 MiB, activations of 2 MiB that come and go, and 64 KiB that stay in each step: 10 steps a second."""
    if begin == 0:
        made.write(
            birth(0.0, 1, scale * 4 << 20, f"{file}:3 in <module>", device),
            birth(0.01, 2, scale * 4 << 10, None, "cpu"),
        )
    for step in range(begin, begin + steps):
        at, number = 0.1 + step / 10, 10 + 2 * step
        made.write(
            birth(at, number, scale * 2 << 20, f"{file}:8 in train", device, step),
            birth(at + 0.02, number + 1, scale * 64 << 10, f"{file}:9 in train", device, step),
            end(at + 0.05, number, step),
            done(at + 0.09, step),
        )


SOURCE = """\
import torch

model = torch.nn.Linear(1024, 1024)
history = []


def train(x):
    hidden = model(x)
    loss = hidden.mean()
    history.append(loss)
"""
