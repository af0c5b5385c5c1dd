"""A GPU that really runs out: what is alive is told by line and holder. Needs a CUDA device with memory to spare."""

import subprocess
import sys

import pytest

from tenure.trace import autopsies

pytestmark = pytest.mark.gpu

TORCH = """
import sys, tenure, torch
class Cache:
    def __init__(self): self.blocks = []
cache = Cache()
with tenure.trace(sys.argv[1]):
    weights = torch.zeros(1 << 30, device="cuda")  # second
    try:
        while True:
            cache.blocks.append(torch.empty(1 << 31, device="cuda"))  # first
    except torch.OutOfMemoryError as error:
        print("caught", len(cache.blocks))
"""
JAX = """
import sys, tenure, jax, jax.numpy as jnp
kept = []
with tenure.trace(sys.argv[1]):
    weights = jnp.zeros((1 << 29,))  # second
    try:
        while True:
            kept.append(jnp.zeros((1 << 31,)).block_until_ready())  # first
    except jax.errors.JaxRuntimeError as error:
        print("caught", len(kept))
"""


def has_cuda(name):
    if name == "torch":
        return pytest.importorskip("torch").cuda.is_available()
    return any(device.platform == "gpu" for device in pytest.importorskip("jax").devices())


@pytest.mark.parametrize(("name", "source", "holder"), [("torch", TORCH, "cache.blocks"), ("jax", JAX, "kept")])
def test_a_real_end_of_memory(name, source, holder, tmp_path):
    if not has_cuda(name):
        pytest.skip(f"{name} has no CUDA device here")
    script = tmp_path / "program.py"
    script.write_text(source)
    done = subprocess.run([sys.executable, str(script), str(tmp_path / "t")], capture_output=True, text=True)
    assert done.stdout.startswith("caught"), done.stderr
    found = autopsies.heard(tmp_path / "t")[0]
    print(found)
    lines = [int(part.stack.partition(":")[2].partition(" ")[0]) for part in found.parts[:2]]
    marks = [
        next(at for at, text in enumerate(source.splitlines(), 1) if text.endswith(f"# {word}"))
        for word in ("first", "second")
    ]
    assert lines == marks
    assert holder in str(found.parts[0].holders[0])
    assert found.wanted is None or found.wanted >= 8 << 30  # JAX says it in words of its own
