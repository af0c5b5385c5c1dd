"""A compiled function that trains, and a compiled step of an optimizer: what the compiler does, and counts."""

import warnings

import torch

warnings.simplefilter("always")
warnings.filterwarnings("ignore", ".*is deprecated. Please switch to")
torch._logging.set_logs(all=50)  # log lines bear the time
torch.manual_seed(0)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile(backend="eager")
def train(x):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


print([train(torch.ones(1, 2)).item() for _ in range(3)])
for full in (False, True):
    step = torch.compile(optimizer.step, backend="eager", fullgraph=full)
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
        step()
print(model.weight.tolist(), torch._dynamo.utils.counters["stats"])
print(sorted(text.splitlines()[0] for text in torch._dynamo.utils.counters["graph_break"]))
