"""A training loop that leaks, with pauses in which the trace is written, and libraries imported later."""

import time

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
kept = []
for step in range(24):
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(loss)
    if step % 12 == 5:
        time.sleep(0.2)
print(sum(float(loss) for loss in kept))

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

print(pa.array(np.arange(3)).to_pylist(), pa.ipc.new_stream.__name__)
