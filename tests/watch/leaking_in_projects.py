"""More programs, written as in larger projects: each leak, and a correct program that does almost the same."""

LEAKS = {
    "an embedding that grows, and its optimizer": (
        "TN313",
        """
import torch
class Vocabulary(torch.nn.Module):
    def __init__(self, words=50):
        super().__init__()
        self.table = torch.nn.Embedding(words, 32)
    def grow(self, optimizer, by=10):
        old = self.table.weight
        wider = torch.nn.Embedding(len(old) + by, 32)  # born
        wider.weight.data[: len(old)] = old.data
        optimizer.add_param_group({"params": list(wider.parameters())})  # held
        self.table = wider
vocabulary = Vocabulary()
sgd = torch.optim.SGD(vocabulary.parameters(), lr=0.1, momentum=0.9)
for chapter in range(40):
    for _ in range(2):
        vocabulary.table(torch.randint(50, (16,))).square().mean().backward()
        sgd.step(); sgd.zero_grad()
    vocabulary.grow(sgd)
""",
    ),
    "points that are split, and the state of the old ones": (
        "TN313",
        """
import torch
points = torch.nn.Parameter(torch.randn(256, 3))
adam = torch.optim.Adam([points], lr=0.01)
for round in range(60):
    adam.zero_grad()
    points.square().sum().backward()
    adam.step()
    split = torch.nn.Parameter(torch.cat((points.data[1:], points.data[:1] * 0.5)))  # born
    adam.state[split] = {k: v.clone() for k, v in adam.state[points].items()}  # held
    adam.param_groups[0]["params"] = [split]
    points = split
""",
    ),
    "a running statistic in a buffer": (
        "TN303",
        """
import torch
class Whiten(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("centre", torch.zeros(width))
    def forward(self, x):
        mean = x.mean(0)
        self.centre.lerp_(mean, 0.1)  # held
        return x - mean
net = torch.nn.Sequential(torch.nn.Linear(8, 16), Whiten(16), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for batch in range(60):
    loss = (net(torch.randn(32, 8)) - 1).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
""",
    ),
    "a running number of two calls": (
        "TN301",
        """
import torch
class Scale:
    def __init__(self): self.range = torch.ones(1)
    def update(self, x):
        self.range.mul_(0.9).add_(0.1 * x.abs().max())  # held
        return x / x.abs().max()
def main():
    scale, encoder = Scale(), torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(encoder.parameters())
    for batch in range(60):
        loss = scale.update(encoder(torch.randn(4, 8))).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
main()
""",
    ),
    "probes on a shared model, never taken off": (
        "TN304",
        """
import torch
class Probe:
    def __init__(self, net):
        self.seen = []
        net[0].register_forward_hook(self.remember)
    def remember(self, layer, given, made):
        self.seen.append(made.detach() * 2)  # born
    def answer(self, net, x):
        with torch.no_grad(): net(x)
        return float(self.seen[-1].mean())
def query(net):
    return Probe(net).answer(net, torch.randn(16, 64))
def main():
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
    print(sum(query(net) for _ in range(40)) < 1e9)
main()
""",
    ),
    "a loop that closes over each round's target": (
        "TN311",
        """
import jax, jax.numpy as jnp
def solve(target, x):
    @jax.jit
    def body(i, x):
        return x - 0.1 * (x - target)
    return jax.lax.fori_loop(0, 20, body, x)  # born
x = jnp.zeros(8)
for round in range(40):
    x = solve(jnp.full(8, float(round)), x)
print(float(x.sum()) > 0)
""",
    ),
}

CLEAN = {
    "columns that stay part of the model": """
import torch
class Progressive(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.columns = torch.nn.ModuleList()
    def forward(self, x): return sum(column(x) for column in self.columns)
model = Progressive()
optimizer = None
for task in range(40):
    column = torch.nn.Linear(32, 8)
    model.columns.append(column)
    if optimizer is None: optimizer = torch.optim.Adam(column.parameters())
    else: optimizer.add_param_group({"params": column.parameters()})
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(16, 32)).square().mean().backward()
        optimizer.step()
print(len(model.columns))
""",
    "points that are split, and their state with them": """
import torch
def train():
    points = torch.nn.Parameter(torch.randn(256, 3))
    adam = torch.optim.Adam([points], lr=0.01)
    for round in range(60):
        adam.zero_grad()
        points.square().sum().backward()
        adam.step()
        split = torch.nn.Parameter(torch.cat((points.data[1:], points.data[:1] * 0.5)))
        adam.state[split] = adam.state.pop(points)
        adam.param_groups[0]["params"] = [split]
        points = split
train()
""",
    "a running statistic without graph": """
import torch
class Whiten(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("centre", torch.zeros(width))
    def forward(self, x):
        mean = x.mean(0)
        self.centre.lerp_(mean.detach(), 0.1)
        return x - mean
net = torch.nn.Sequential(torch.nn.Linear(8, 16), Whiten(16), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for batch in range(60):
    loss = (net(torch.randn(32, 8)) - 1).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
""",
    "a model in functions, with cycles of its own": """
import torch
class Node(torch.nn.Module):
    def __init__(self, parent=None):
        super().__init__()
        self.layer = torch.nn.Linear(32, 32)
        self.above = [parent]
        self.below = torch.nn.ModuleList(Node(self) for _ in range(8)) if parent is None else []
    def forward(self, x): return self.layer(x) + sum(node(x) for node in self.below)
def main():
    tree = Node()
    for _ in range(60): tree(torch.randn(4, 32)).sum().item()
main()
""",
    "numbers of finished trainings": """
import keras, numpy as np
def trial(width):
    layers = [keras.layers.Input((6,)), keras.layers.Dense(width, activation="relu"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse", run_eagerly=True)
    return model.fit(np.ones((32, 6)), np.ones((32, 1)), batch_size=8, verbose=0).history
history = []
for n in range(16):
    history.append(trial(64 + n))
print(min(one["loss"][0] for one in history) < 9)
""",
    "models that vote in the end": """
import keras, numpy as np
models = []
for n in range(12):
    model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(128), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(np.ones((16, 6)), np.ones((16, 1)), batch_size=8, verbose=0)
    models.append(model)
print(float(sum(model(np.ones((2, 6))) for model in models)[0, 0]) < 1e9)
""",
    "a loop that gets each round's target": """
import jax, jax.numpy as jnp
def body(i, state):
    x, target = state
    return x - 0.1 * (x - target), target
def solve(target, x):
    return jax.lax.fori_loop(0, 20, body, (x, target))[0]
x = jnp.zeros(8)
for round in range(40):
    x = solve(jnp.full(8, float(round)), x)
print(float(x.sum()) > 0)
""",
    "a branch that is written where it is used": """
import jax, jax.numpy as jnp
def update(w, scale):
    grads = scale * w / scale
    def good(w): return w - 0.1 * grads, scale * 1.5
    def overflow(w): return w, scale * 0.5
    return jax.lax.cond(jnp.all(jnp.isfinite(grads)), good, overflow, w)
w, scale = jnp.ones(70), jnp.float32(8.0)
for step in range(20): w, scale = update(w, scale)
print(float(w.sum()) > 0)
""",
}
