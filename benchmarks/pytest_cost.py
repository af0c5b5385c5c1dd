"""What `pytest --tenure` costs: suites of 200 clean tests, with it and without, in turns. Writes pytest_cost.md.

pytest_cost.py [ROUNDS [SUITE]]; a suite by how its name begins, which then is only told, not written.
"""

import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from importlib.metadata import version
from pathlib import Path

from ratios import told

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
SUITES = {
    "torch: training of a small network, about 10 ms each": """
        import pytest
        import torch

        @pytest.fixture(scope="module")
        def data():
            return torch.randn(256, 64), torch.randint(0, 8, (256,))

        @pytest.mark.parametrize("seed", range(200))
        def test_learns(seed, data):
            torch.manual_seed(seed)
            model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
            losses = []
            for _ in range(5):
                loss = torch.nn.functional.cross_entropy(model(data[0]), data[1])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            assert losses[-1] < losses[0]
        """,
    "torch: an operation or two, about 1 ms each": """
        import pytest
        import torch

        @pytest.mark.parametrize("seed", range(200))
        def test_sums(seed):
            x = torch.full((1000,), float(seed))
            assert (x + 1).sum().item() == 1000 * (seed + 1)
        """,
    "JAX: gradients of a compiled function, about 5 ms each": """
        import jax
        import jax.numpy as jnp
        import pytest

        loss = jax.jit(jax.value_and_grad(lambda w, x: jnp.mean((x @ w) ** 2)))

        @pytest.mark.parametrize("seed", range(200))
        def test_falls(seed):
            key = jax.random.key(seed)
            w, x = jax.random.normal(key, (64, 64)), jax.random.normal(key, (256, 64))
            values = []
            for _ in range(5):
                value, slope = loss(w, x)
                w = w - 0.1 * slope
                values.append(float(value))
            assert values[-1] < values[0]
        """,
    "TensorFlow: gradients of a compiled function, about 10 ms each": """
        import pytest
        import tensorflow as tf

        @tf.function
        def loss(w, x):
            with tf.GradientTape() as tape:
                tape.watch(w)
                value = tf.reduce_mean((x @ w) ** 2)
            return value, tape.gradient(value, w)

        @pytest.mark.parametrize("seed", range(200))
        def test_falls(seed):
            w, x = tf.random.normal((64, 64), seed=seed), tf.random.normal((256, 64), seed=seed)
            values = []
            for _ in range(5):
                value, slope = loss(w, x)
                w = w - 0.1 * slope
                values.append(float(value))
            assert values[-1] < values[0]
        """,
}


Times = tuple[float, float]  # of the wall and of the processor


def run(folder: Path, core: int, *, watched: bool) -> Times:
    """The suite on one core, from the start of Python to its end."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    # As installed packages have it: compiled once. Beside the suite, so that nothing is written elsewhere.
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "cache")
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what other plugins take is no part of this
    plugins = ["-p", "no:cacheprovider", "-p", "tenure.integrations.pytest"]
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", *plugins, *["--tenure"] * watched, "test_suite.py"]
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        child = subprocess.Popen(
            ["taskset", "-c", str(core), *command], cwd=folder, env=environment, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(child.pid, 0)
        times = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
        output.seek(0)
        text = output.read().decode()
    if status or "200 passed" not in text:
        raise SystemExit(text[-3000:])
    return times


def measure(name: str, text: str) -> str:
    """Rounds of four runs: what the machine does to one pair by becoming slower, it undoes to the other. A line of the table."""
    rounds = []
    core = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "test_suite.py").write_text(textwrap.dedent(text))
        (folder / "pytest.ini").write_text("[pytest]\n")
        run(folder, core, watched=True)  # compiles
        for _ in range(ROUNDS):
            rounds.append([run(folder, core, watched=watched) for watched in (False, True, True, False)])
            print(f"  {name}: {rounds[-1]}", flush=True)
    cells = [name]
    for at in (1, 0):  # first the processor's time
        plain, watched, noise = [], [], []
        for first, one, other, last in rounds:
            plain.append((first[at] + last[at]) / 2)
            watched.append((one[at] + other[at]) / 2)
            noise.append(last[at] / first[at])
        cells += [f"{statistics.median(plain):.2f} s", f"{statistics.median(watched):.2f} s"]
        cells += [told([with_ / without for with_, without in zip(watched, plain, strict=True)]), told(noise)]
    return f"| {' | '.join(cells)} |"


def page(rows: list[str]) -> str:
    about = ", ".join(f"{name} {version(name)}" for name in ("pytest", "torch", "jax", "tensorflow-cpu"))
    today = datetime.datetime.now(datetime.UTC).date()
    return f"""# What `pytest --tenure` costs

A suite of 200 clean tests that all pass, each checked for leaks and for its peak. The times are of whole runs of pytest
without other plugins, from the start of Python to its exit, on one core. A round is four runs: without `--tenure`, with
it, with it, without it. *Ratio* compares the two with it to the two without. *Noise* is the ratio of the last run to the
first, which would be 1 on a quiet machine. Both are medians of {ROUNDS} rounds, with their 95% intervals.
Processor time covers the whole process with all of its threads. On a busy machine it is more reliable than wall time.
Made by `python benchmarks/pytest_cost.py`.

{about}, Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}, {today}.

| suite | processor | with --tenure | ratio | noise | wall | with --tenure | ratio | noise |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}
"""


def main() -> None:
    if len(sys.argv) > 2:
        for name, text in SUITES.items():
            if name.startswith(sys.argv[2]):
                print(measure(name, text))
        return
    rows = []
    for suite in SUITES.items():
        rows.append(measure(*suite))
        (Path(os.environ.get("OUT", Path(__file__).parent)) / "pytest_cost.md").write_text(page(rows))
    print(page(rows))


if __name__ == "__main__":
    main()
