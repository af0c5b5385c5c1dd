"""What `pytest --tenure` costs: suites of 200 clean tests, with it and twice without, in turns. Writes pytest_cost.md.

pytest_cost.py [ROUNDS]
"""

import datetime
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from importlib.metadata import version
from pathlib import Path

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


def run(folder: Path, *words: str) -> tuple[float, float]:
    """The wall and processor time of one run of the suite, from the start of Python to its end."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    # As installed packages have it: compiled once. Beside the suite, so that nothing is written elsewhere.
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "cache")
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what other plugins take is no part of this
    plugins = ["-p", "no:cacheprovider", "-p", "tenure.integrations.pytest"]
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", *plugins, *words, str(folder / "test_suite.py")]
    began = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - began
    if status or "200 passed" not in output:
        raise SystemExit(output[-3000:])
    return wall, usage.ru_utime + usage.ru_stime


def measure(name: str, text: str) -> str:
    """Rounds of three runs, the watched one in each place as often; a line of the table."""
    rounds = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "test_suite.py").write_text(textwrap.dedent(text))
        (folder / "pytest.ini").write_text("[pytest]\n")
        run(folder, "--tenure")  # compiles
        run(folder)
        for at in range(ROUNDS):
            runs = [run(folder, *["--tenure"] * (place == at % 3)) for place in range(3)]
            watched = runs.pop(at % 3)
            rounds.append((watched, *runs[:: 1 if at % 2 else -1]))
            print(f"  {name}: {rounds[-1]}", flush=True)
    cells = [name]
    for at in (1, 0):  # first the processor's time
        cells += [
            f"{statistics.median(one[at] for one in kind):.2f} s" for kind in list(zip(*rounds, strict=True))[1::-1]
        ]
        cells.append(_told([watched[at] * 2 / (one[at] + other[at]) for watched, one, other in rounds]))
        cells.append(_told([one[at] / other[at] for _, one, other in rounds]))
    return f"| {' | '.join(cells)} |"


def _told(ratios: list[float]) -> str:
    """The median, and where it would lie in 95 of 100 such runs, by drawing from these ratios again and again."""
    draws = random.Random(0)
    medians = sorted(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.3f} ({medians[50]:.3f} to {medians[-51]:.3f})"


def page(rows: list[str]) -> str:
    about = ", ".join(f"{name} {version(name)}" for name in ("pytest", "torch", "jax", "tensorflow-cpu"))
    today = datetime.datetime.now(datetime.UTC).date()
    return f"""# What `pytest --tenure` costs

A suite of 200 clean tests, each watched for what it leaves behind and for its peak, and all passing: whole runs of pytest
without other plugins, from the start of Python to its end. In rounds of three runs one has `--tenure` and two have not.
*Ratio* is that of the one to the two others; *noise* is the ratio of these two to each other, which would be 1 on a quiet
machine. Both are medians of {ROUNDS} rounds, with the range in which that median lies in 95 of 100 such runs. The processor's
time is that of the whole process, all of its threads: it says more than the wall's where the machine has other work too.
Made by `python benchmarks/pytest_cost.py`.

{about}, Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}, {today}.

| suite | processor | with --tenure | ratio | noise | wall | with --tenure | ratio | noise |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}
"""


def main() -> None:
    rows = []
    for suite in SUITES.items():
        rows.append(measure(*suite))
        (Path(os.environ.get("OUT", Path(__file__).parent)) / "pytest_cost.md").write_text(page(rows))
    print(page(rows))


if __name__ == "__main__":
    main()
