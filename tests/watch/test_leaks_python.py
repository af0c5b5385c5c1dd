"""Leaks found without native extensions, and what must not be called one there."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Each trained with an optimizer: leaks show by their steps.
THREADS = """
import queue, threading, torch
kept = []
class Feeder(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.queue = queue.Queue(2)
        self.start()
    def run(self):
        for _ in range(50):
            self.queue.put(torch.randn(64, 64))
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(40):
    model(Feeder().queue.get()).sum().backward()
    optimizer.step()
"""

COLLECTED = """
import time
import jax, jax.numpy as jnp
results = []
for n in range(60):
    f = jax.jit(lambda x, n=n: x * n)
    results.append(f(jnp.ones(200)))
    time.sleep(0.02)  # arrays are looked at ten times a second
print(float(sum(each.sum() for each in results)))
"""


def findings(tmp_path, script):
    out = tmp_path / "findings.json"
    env = {**os.environ, "TENURE_NATIVE": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    command = [
        sys.executable,
        "-m",
        "tenure",
        "run",
        "-o",
        str(tmp_path / "trace"),
        "--findings",
        str(out),
        str(script),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert "without native extensions" in " ".join(done.stderr.replace("\ntenure:", " ").split())
    return {one["code"] for one in json.loads(out.read_text()) if one["code"] < "TN500"}


def test_a_loss_with_its_graph(tmp_path, torch):
    assert findings(tmp_path, ROOT / "examples" / "leaking_training.py") == {"TN301"}


def test_threads_that_wait_with_tensors(tmp_path, torch):
    (tmp_path / "program.py").write_text(THREADS)
    assert findings(tmp_path, tmp_path / "program.py") == {"TN309"}


def test_arrays_whose_uses_are_not_seen_are_not_called_a_leak(tmp_path, jax):
    (tmp_path / "program.py").write_text(COLLECTED)
    assert "TN312" not in findings(tmp_path, tmp_path / "program.py")


RETRACED = """
import jax, jax.numpy as jnp
history = []
def step(w, rate):
    @jax.jit
    def update(x):
        return x - rate * x
    return update(w)
w = jnp.ones((64, 64))
for n in range(40):
    w = step(w, n * 0.01)
    history.append(w)
"""

TRAINER = """
import torch
class Trainer:
    def __init__(self):
        self.state, self.seen = State(), []
        self.model = torch.nn.Sequential(torch.nn.Linear(24, 96), torch.nn.ReLU(), torch.nn.Linear(96, 5))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
    def train(self):
        for _ in range(40):
            loss = self.model(torch.ones(32, 24)).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.state.history.append({"loss": loss})
class State:
    def __init__(self):
        self.history = []
Trainer().train()
"""

HOOKED = """
import torch
from collections import defaultdict
class Probe:
    def __init__(self, model):
        self.outputs = defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.ReLU):
                module.register_forward_hook(self.watching(name))
    def watching(self, name):
        def keep(module, inputs, output):
            self.outputs[name].append(output)
        return keep
model = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
def serve(probe):
    for _ in range(40):
        model(torch.ones(16, 32))
serve(Probe(model))
"""


def test_a_function_compiled_again_is_found_beside_its_results(tmp_path, jax):
    (tmp_path / "program.py").write_text(RETRACED)
    assert findings(tmp_path, tmp_path / "program.py") == {"TN311"}


def test_a_state_that_is_no_optimizers(tmp_path, torch):
    (tmp_path / "program.py").write_text(TRAINER)
    assert findings(tmp_path, tmp_path / "program.py") == {"TN301"}


def test_a_hook_that_a_method_makes(tmp_path, torch):
    (tmp_path / "program.py").write_text(HOOKED)
    assert findings(tmp_path, tmp_path / "program.py") == {"TN304"}
