"""What an explanation adds to a program that fails: fresh processes, with and without, in turn.

The time is taken in the process itself, from the end of Python's traceback to the end of the explanation, with every
import that it needs. The last column compares whole processes.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 3
PROGRAMS = {
    "torch, freed graph": (
        "import torch",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = torch.nn.GRUCell(3, 6)
                self.h = torch.zeros(1, 6)
            def forward(self, x):
                self.h = self.cell(x, self.h)
                return self.h
        net = Net()
        for _ in range(2):
            loss = net(torch.randn(1, 3)).sum()
            loss.backward()
        """,
    ),
    "jax, leaked tracer": (
        "import jax, jax.numpy as jnp",
        """
        kept = []
        @jax.jit
        def f(x):
            kept.append(x * 2)
            return x
        f(jnp.ones(3))
        print(kept[0] + 1)
        """,
    ),
    "jax, deleted array": (
        "import jax, jax.numpy as jnp",
        """
        tree = {f"w{i}": jnp.ones(3) for i in range(200)}
        for leaf in tree.values():
            leaf.delete()
        print(tree["w7"] + 1)
        """,
    ),
    "tensorflow, leaked tensor": (
        "import tensorflow as tf",
        """
        kept = []
        @tf.function
        def f(x):
            kept.append(tf.norm(x))
            return x
        f(tf.ones(3))
        print(tf.add(kept[0], 1.0))
        """,
    ),
    "tensorflow, closed session": (
        "import tensorflow as tf",
        """
        with tf.Graph().as_default():
            y = tf.constant(1.0) + 2.0
            with tf.compat.v1.Session() as session:
                session.run(y)
            session.run(y)
        """,
    ),
    "no lifetime error": ("import numpy as np", "np.ones(3) @ np.ones(4)"),
}
# A file as large as training scripts get: all of it is parsed.
PADDING = "".join(f"def helper_{i}(x, y=None):\n    z = x + {i}\n    return [z, y, {{'k': z}}]\n\n" for i in range(500))
HOOK = """
import sys, time
import tenure
before = sys.excepthook
marks = {}
def first(*told):
    before(*told)
    marks["start"] = time.perf_counter()
    marks["cpu"] = time.process_time()
sys.excepthook = first
if %r:
    tenure.install()
ours = sys.excepthook
def last(*told):
    ours(*told)
    print(1000 * (time.perf_counter() - marks["start"]), 1000 * (time.process_time() - marks["cpu"]))
sys.excepthook = last
"""


def program(name, explained, padding):
    import textwrap

    imports, body = PROGRAMS[name]
    return f"{imports}\n{HOOK % explained}\n{PADDING if padding else ''}{textwrap.dedent(body)}"


def once(name, explained, padding, folder):
    path = Path(folder) / "program.py"
    path.write_text(program(name, explained, padding))
    cache = str(Path(folder) / "bytecode")  # as after an installation: bytecode is there
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "PYTHONPYCACHEPREFIX": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, env=env)
    whole = time.perf_counter() - start
    if ("error[" in done.stderr) != (explained and name != "no lifetime error"):
        raise SystemExit(f"{name}: {done.stderr[-600:]}")
    wall, processor = map(float, done.stdout.split()[-2:])
    return wall, processor, whole


def main():
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS:
            for padding in (False, True):
                once(name, True, padding, folder)  # makes the bytecode
                runs = {True: [], False: []}
                for _ in range(RUNS):
                    for explained in (False, True):
                        runs[explained].append(once(name, explained, padding, folder))
                walls, processors, wholes = zip(*runs[True], strict=True)
                ratio = statistics.median(wholes) / statistics.median(whole for _, _, whole in runs[False])
                lines = "2,000 lines" if padding else "short"
                row = (name, lines, statistics.median(processors), statistics.median(walls), max(walls), ratio)
                rows.append(row)
                print(json.dumps(row), flush=True)
    table = [
        "# What an explanation costs",
        "",
        f"`benchmarks/explain_cost.py`, {RUNS} processes each, alternating with as many without it; Python {platform.python_version()}.",
        "The aim is less than 100 ms of wall time added to a failing program, on a quiet machine. Everything is counted,",
        "including imports. Bytecode exists, as after an installation.",
        "",
        "| program that fails | its file | processor, median ms | wall, median ms | wall, most ms | whole process, ratio |",
        "|---|---|---|---|---|---|",
        *(
            f"| {n} | {size} | {cpu:.0f} | {wall:.0f} | {most:.0f} | {ratio:.3f} |"
            for n, size, cpu, wall, most, ratio in rows
        ),
        "",
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(table))


if __name__ == "__main__":
    main()
