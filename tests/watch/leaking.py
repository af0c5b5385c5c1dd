"""Small programs that leak, and such that only look so: `# born` and `# held` mark the lines that must be named."""

LEAKS = {
    "losses in a dict of lists": (
        "TN301",
        """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
log = {"train": []}
for step in range(60):
    loss = model(torch.randn(4, 8)).pow(2).mean()  # born
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    log["train"].append(loss)  # held
""",
    ),
    "a running mean": (
        "TN301",
        """
import torch
class Mean:
    def __init__(self): self.value, self.n = 0.0, 0
    def add(self, x):
        self.n += 1
        self.value = self.value + (x - self.value) / self.n  # held
def main():
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mean = Mean()
    for step in range(60):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        mean.add(loss)
main()
""",
    ),
    "features of an evaluation with gradients on": (
        "TN302",
        """
import torch
def embed(model, batches):
    vectors = []
    for x in batches:
        out = torch.tanh(model(x))  # born
        vectors.append(out)  # held
    return len(vectors)
model = torch.nn.Linear(64, 64)
embed(model, [torch.randn(32, 64) for _ in range(60)])
""",
    ),
    "hidden state carried on": (
        "TN303",
        """
import torch
cell = torch.nn.GRUCell(8, 16)
head = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD([*head.parameters()], lr=0.1)
def main():
    h = torch.zeros(4, 16)
    for step in range(60):
        h = cell(torch.randn(4, 8), h)  # held
        loss = head(h.detach()).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
main()
""",
    ),
    "rows by a forward hook, from a line whose other buffers are temporary": (
        "TN308",
        """
import torch
seen = []
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.out = torch.nn.Linear(64, 1024), torch.nn.Linear(1024, 10)
    def forward(self, x):
        return self.out(self.up(x).relu())  # born
def main():
    net = Net()
    net.up.register_forward_hook(lambda module, args, output: seen.append(output.detach()[0]))  # held
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(40):
        loss = net(torch.randn(64, 64)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
main()
""",
    ),
    "activations by a forward hook": (
        "TN304",
        """
import torch
seen = []
def remember(module, args, output):
    seen.append(output.detach())  # held
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
model[1].register_forward_hook(remember)
with torch.no_grad():
    for _ in range(60):
        model(torch.randn(16, 64))
""",
    ),
    "a module that knows itself": (
        "TN305",
        """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(256, 256)  # born
        self.call = lambda x: self.layer(x)  # held
    def forward(self, x): return self.call(x)
def trial(): return float(Net()(torch.randn(2, 256)).sum())
for _ in range(60): trial()
""",
    ),
    "errors for a report at the end": (
        "TN306",
        """
import torch
errors = []
def attempt(x):
    y = x @ x.T  # born
    raise ValueError("not this one")
for _ in range(60):
    try:
        attempt(torch.randn(64, 64))
    except ValueError as error:
        errors.append(error)  # held
""",
    ),
    "a cache by step": (
        "TN307",
        """
import functools
import torch
@functools.cache  # held
def schedule(step):
    return torch.linspace(0, 1, 4096) * step  # born
for step in range(80):
    schedule(step)
""",
    ),
    "the first row of each batch": (
        "TN308",
        """
import torch
rows = []
def main():
    for _ in range(60):
        batch = torch.randn(64, 256)  # born
        rows.append(batch[0])  # held
main()
""",
    ),
    "crops that the training reads later": (
        "TN308",
        """
import torch
class Crops:
    def __init__(self, count):
        self.crops = []
        for index in range(count):
            self.add(torch.randn(1, 40_000), index * 100)  # born
    def add(self, whole, onset):
        self.crops.append(whole[:, onset : onset + 400])  # held
data = Crops(40)
model = torch.nn.Linear(400, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(2):
    for crop in data.crops:
        loss = model(crop).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
""",
    ),
    "rows that a method cuts out, compared later": (
        "TN308",
        """
import torch
model = torch.nn.Linear(32, 64)
def first(hidden):
    return [row for row in hidden[:, 0]]
@torch.inference_mode()
def encode():
    rows = []
    for _ in range(60):
        hidden = model(torch.randn(4, 50, 32))  # born
        rows.extend(first(hidden))  # held
    return rows
rows = encode()
print(sum(torch.dot(row, rows[0]).item() > 0 for row in rows) > 0)
""",
    ),
    "all rows of each batch, with their graph": (
        "TN302",
        """
import torch
class Monitor:
    def __init__(self): self.seen = {}
    def add(self, first, logits):
        for i, row in enumerate(logits):
            self.seen[first + i] = row  # held
model = torch.nn.Linear(128, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = Monitor()
for step in range(60):
    logits = model(torch.randn(32, 128))  # born
    loss = logits.square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    monitor.add(32 * step, logits)
print(len(monitor.seen))
""",
    ),
    "generators that nobody ends": (
        "TN309",
        """
import torch
waiting = []
def chunks():
    whole = torch.randn(64, 64)  # born
    for part in whole.split(8):
        yield part.sum().item()
for _ in range(60):
    source = chunks()
    next(source)
    waiting.append(source)
""",
    ),
    "host copies that are none": (
        "TN312",
        """
import jax, jax.numpy as jnp
@jax.jit
def step(w): return w * 0.99
w = jnp.ones((64, 64))
snapshots = []
for i in range(60):
    w = step(w)  # born
    snapshots.append(w)  # held
""",
    ),
    "compiled for each length": (
        "TN311",
        """
import jax, jax.numpy as jnp
@jax.jit
def score(x): return (x * x).sum()
total = 0.0
for n in range(40):
    total += float(score(jnp.ones(10 + n)))  # born
""",
    ),
    "optimizers of finished folds": (
        "TN313",
        """
import torch
finished = []
for fold in range(40):
    model = torch.nn.Linear(64, 64)  # born
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.randn(4, 64)).pow(2).mean().backward()
        optimizer.step(); optimizer.zero_grad()
    finished.append(optimizer)  # held
""",
    ),
    "a growing cost": (
        "TN314",
        """
import torch
model = torch.nn.Linear(32, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
class Window:
    cost = 0.0
    def add(self, x):
        self.cost = self.cost + model(x).pow(2).mean()  # held
        optimizer.zero_grad()
        self.cost.backward(retain_graph=True)
        optimizer.step()
window = Window()
for _ in range(40): window.add(torch.randn(8, 32))
""",
    ),
}

CLEAN = {
    "all rows of each batch, read later": """
import torch
model = torch.nn.Linear(32, 64)
rows = []
with torch.no_grad():
    for _ in range(60):
        rows.extend(model(torch.randn(16, 32)))
print(sum(row.sum().item() > 0 for row in rows) > 0)
""",
    "small views of data that stays, read later": """
import torch
wholes, parts = [], []
for _ in range(60):
    wholes.append(torch.randn(64, 256))
    parts.append(wholes[-1][0])
print(sum(whole.sum().item() + part.sum().item() for whole, part in zip(wholes, parts)) != 0)
""",
    "a training loop": """
import torch
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters())
losses = []
for step in range(80):
    loss = model(torch.randn(16, 32)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
""",
    "predictions put together after the loop": """
import torch
model = torch.nn.Linear(64, 64)
outputs = []
with torch.no_grad():
    for _ in range(80):
        outputs.append(model(torch.randn(16, 64)))
print(torch.cat(outputs).shape)
""",
    "a long sequence, then backward": """
import torch
cell = torch.nn.GRUCell(8, 32)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
for step in range(4):
    h, states = torch.zeros(4, 32), []
    for t in range(60):
        h = cell(torch.randn(4, 8), h)
        states.append(h)
    loss = torch.stack(states).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
""",
    "a deep model": """
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(60)))
print(model(torch.randn(2, 64)).shape)
""",
    "a replay buffer with an end": """
import collections
import torch
memory = collections.deque(maxlen=1000)
for step in range(80):
    memory.append(torch.randn(64))
""",
    "a cache that fills up": """
import torch
tables = {}
for step in range(400):
    key = step % 12
    if key not in tables: tables[key] = torch.randn(64, 64)
    (tables[key] @ tables[key]).sum().item()
""",
    "lists that are emptied after each epoch": """
import torch
model = torch.nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(6):
    outputs = []
    for step in range(20):
        out = model(torch.randn(16, 32))
        loss = out.pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        outputs.append(out.detach())
    print(torch.cat(outputs).mean().item())
""",
    "an ensemble": """
import torch
models = [torch.nn.Linear(64, 64) for _ in range(40)]
x = torch.randn(4, 64)
for _ in range(20): sum(model(x) for model in models).mean().item()
""",
    "jax with few shapes": """
import jax, jax.numpy as jnp
@jax.jit
def step(w, x): return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)
w = jnp.ones(16)
for i in range(80): w = step(w, jnp.ones((4 + 4 * (i % 3), 16)))
""",
}
