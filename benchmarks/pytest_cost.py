"""What `pytest --tenure` costs: a suite of 200 clean tests, with and without, in alternating runs. Writes pytest_cost.md."""

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

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
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
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *words,
        str(folder / "test_suite.py"),
    ]
    began = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - began
    if status or "200 passed" not in output:
        raise SystemExit(output[-3000:])
    return wall, usage.ru_utime + usage.ru_stime


def measure(text: str) -> list[float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_suite.py").write_text(textwrap.dedent(text))
        (folder / "pytest.ini").write_text("[pytest]\n")
        run(folder, "--tenure")  # compiles
        run(folder)
        pairs = []
        for number in range(PAIRS):
            order = [(), ("--tenure",)] if number % 2 == 0 else [("--tenure",), ()]
            done = {words: run(folder, *words) for words in order}
            pairs.append((*done[()], *done["--tenure",]))
            print(f"  {pairs[-1]}", flush=True)
    columns = list(zip(*pairs, strict=True))
    wall = statistics.median(after / before for before, after in zip(columns[0], columns[2], strict=True))
    processor = statistics.median(after / before for before, after in zip(columns[1], columns[3], strict=True))
    return [*map(statistics.median, columns), wall, processor]


def main() -> None:
    rows = []
    for name, text in SUITES.items():
        print(name, flush=True)
        bare, bare_cpu, watched, watched_cpu, wall, processor = measure(text)
        rows.append(
            f"| {name} | {bare:.2f} s | {watched:.2f} s | {bare_cpu:.2f} s | {watched_cpu:.2f} s | {wall:.3f} | {processor:.3f} |"
        )
        write(rows)


def write(rows: list[str]) -> None:
    about = ", ".join(f"{name} {version(name)}" for name in ("pytest", "torch", "jax", "tensorflow-cpu"))
    load = os.getloadavg()[0]
    today = datetime.datetime.now(datetime.UTC).date()
    page = f"""# What `pytest --tenure` costs

A suite of 200 clean tests, each watched for what it leaves behind and for its peak, and all passing, with and without
`--tenure`: whole runs of pytest, from the start of Python to its end, in alternating order, {PAIRS} pairs. Ratios are
medians over the pairs. The processor's time is that of the whole process: it says more than the wall's where the
machine has other work too. Made by `python benchmarks/pytest_cost.py`.

{about}, Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, load average {load:.1f}, {today}.

| suite | wall | with --tenure | processor | with --tenure | ratio of wall | ratio of processor |
|---|---|---|---|---|---|---|
""" + "\n".join(rows)
    (Path(__file__).parent / "pytest_cost.md").write_text(page + "\n")
    print(page, flush=True)


if __name__ == "__main__":
    main()
