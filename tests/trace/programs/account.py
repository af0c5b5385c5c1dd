"""A training run, recorded and profiled at once: prints the bytes alive at every step by both accounts."""

import re
import sys
from pathlib import Path

import pyarrow as pa
import torch

import tenure
from tenure.trace.recorder import Recorder

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.AdamW(model.parameters())
recorder = Recorder(Path(sys.argv[1]))
with torch.profiler.profile(profile_memory=True) as profile:
    recorder.start()
    with torch.autograd.profiler.record_function("begin"):
        pass
    for step in range(5):
        loss = model(torch.randn(32, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tenure.mark(f"step {step}")
        with torch.autograd.profiler.record_function(f"step {step}"):
            pass
    recorder.stop()

allocated, counted = 0, []
for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
    if event.name() == "[memory]":
        allocated += event.nbytes()
    elif event.name() == "begin":
        allocated = 0
    elif event.name().startswith("step "):
        counted.append(allocated)

live, told = {}, []
(file,) = recorder.folder.glob("*.arrows")
for row in sorted(pa.ipc.open_stream(file).read_all().to_pylist(), key=lambda row: row["time"]):
    if row["event"] == "birth" and (row["site"] or row["op"]):  # the others were there before
        live[row["buffer"]] = row["bytes"]
    elif row["event"] == "end":
        live.pop(row["buffer"], None)
    elif row["event"] == "mark" and re.match(r"step \d", row["name"] or ""):
        told.append(sum(live.values()))
print(counted)
print(told)
