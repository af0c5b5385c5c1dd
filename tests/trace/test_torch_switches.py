"""What goes beside torch's interface can be switched off: the same is recorded, and torch is left as it was."""

import json
import os
import subprocess
import sys

import pytest

SWITCHES = ("TENURE_TORCH_CONSTANTS", "TENURE_TORCH_LISTS", "TENURE_TORCH_CALLS")

PROGRAM = """
import json, sys
import torch
import tenure
from tenure.frameworks.recording import torch as recording

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with tenure.trace("t") as t:
    core = recording.core()
    before = bool(core.direct(True))
    quiet = recording.Quiet(core)
    for _ in range(5):
        loss = model(torch.ones(2, 8)).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    value = float(loss)
rows = tenure.load(t.path).sql("select regexp_replace(site, '.*/', ''), bytes, count(*) from events where event = 'birth' group by all order by all")
print(json.dumps([value, before, quiet._core is not None, [list(map(str, row.values())) for row in rows.to_pylist()]]))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    if "torch" not in os.environ.get("TENURE_TEST_FRAMEWORKS", "torch") or os.environ.get("TENURE_NATIVE") == "0":
        pytest.skip("this is of torch's native recorder")

    def run(**switches):
        folder = tmp_path_factory.mktemp("switches")
        (folder / "s.py").write_text(PROGRAM)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "s.py"], cwd=folder, capture_output=True, text=True, timeout=200, check=False,
            env={**os.environ, **switches},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run(), run(**dict.fromkeys(SWITCHES, "0"))


def test_the_same_is_recorded_without_them(recorded):
    (value, *_, births), (other, *_, same) = recorded
    assert value == other
    assert len(births) > 8
    assert births == same


def test_each_is_in_use_by_default_and_not_when_switched_off(recorded):
    (_, calls, constants, _), (_, no_calls, no_constants, _) = recorded
    assert constants
    assert calls == sys.platform.startswith("linux")
    assert (no_calls, no_constants) == (False, False)
