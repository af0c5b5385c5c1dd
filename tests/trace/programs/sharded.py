"""Parameters that are DTensors: those of tensor parallelism, and of FSDP2."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, distribute_module, distribute_tensor

dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (1,))
model = distribute_module(torch.nn.Linear(4, 4), mesh)
x = distribute_tensor(torch.ones(2, 4), mesh, [Replicate()])
for kind in (torch.optim.Adam, torch.optim.SGD):
    optimizer = kind(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
print("DTensor", model(x).to_local().tolist())
sharded = fully_shard(torch.nn.Linear(4, 4), mesh=mesh)
optimizer = torch.optim.Adam(sharded.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    sharded(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("FSDP2", sharded(torch.ones(2, 4)).tolist())
dist.destroy_process_group()
