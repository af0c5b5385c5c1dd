"""Programs with odd objects give the same output, warnings and exit code with each of torch's recorders as without."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tenure

PROGRAMS = Path(__file__).parent / "programs"


def begun(program, *arguments, folder=None, native="1"):
    env = {**os.environ, "TENURE_NATIVE": native, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    env.pop("TENURE_TRACE", None)
    if folder is not None:
        env["TENURE_TRACE"] = str(folder)
    command = [sys.executable, str(PROGRAMS / program), *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    out, err = process.communicate(timeout=200)
    # torch's own profiler logs what it does, with the time.
    plain = [line for line in out.splitlines() if not line.startswith("USDT:")]
    return process.returncode, plain, [line for line in err.splitlines() if not line.startswith("USDT:")]


def check(tmp_path, program, *, arguments=lambda name: ()):
    """Run it alone and with both recorders, all at once; what the recorders say is in their traces."""
    ways = {"alone": {}, "native": {}, "python": {"native": "0"}}
    running = {
        name: begun(program, *arguments(name), folder=None if name == "alone" else tmp_path / name, **how)
        for name, how in ways.items()
    }
    found = {name: ended(process) for name, process in running.items()}
    assert found["alone"][0] == 0, found["alone"][2]
    assert found["native"] == found["alone"]
    assert found["python"] == found["alone"]
    for name in ("native", "python"):
        trace = tenure.load(tmp_path / name)
        marks = [row["name"] for row in trace.sql("select name from events where event = 'mark'").to_pylist()]
        assert len(marks) == 1, marks  # which recorder it was; what went wrong in it would be another


def test_odd_optimizers_parameters_and_state(tmp_path, torch):
    check(tmp_path, "odd_optimizers.py")


def test_parameters_of_tensor_parallelism_and_fsdp2(tmp_path, torch):
    if not torch.distributed.is_available():
        pytest.skip("this torch is built without distributed")
    check(tmp_path, "sharded.py", arguments=lambda name: [tmp_path / f"{name}.store"])


def test_what_torch_offers_beside_plain_tensors(tmp_path, torch):
    check(tmp_path, "torch_features.py")


@pytest.mark.long
def test_an_optimizer_that_compiled_code_calls_is_not_compiled_differently(tmp_path, torch):
    """The hooks of its steps would break the graph, and warn."""
    check(tmp_path, "compiled_steps.py")
