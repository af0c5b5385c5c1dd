"""A peak in JAX is of arrays alone: every view says so, and how much more XLA needs by its own figures."""

import os
import subprocess
import sys

import pytest

import tenure
from tenure.analysis.summary import summary
from tenure.model import size
from tenure.views.console import report

pytest.importorskip("jax")

PROGRAM = """
import jax, jax.numpy as jnp

@jax.jit
def widest(x):
    y = x @ x.T
    return jnp.sort(jnp.sin(y @ y + 1.0), axis=0).sum() + jnp.linalg.norm(y)

x = jnp.ones((300, 40))
widest(x).block_until_ready()
jax.jit(lambda x: jnp.sort(x).sum())(x)
print(widest.lower(x).compile().memory_analysis().temp_size_in_bytes)
"""


@pytest.mark.parametrize("native", ["1", "0"])
def test_the_peak_is_of_arrays_alone(native, tmp_path):
    (tmp_path / "s.py").write_text(PROGRAM)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TENURE")}
    clean |= {"TENURE_NATIVE": native, "JAX_PLATFORMS": "cpu"}
    call = [sys.executable, "-m", "tenure", "run", "-o", "t", "s.py"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, env=clean, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    temporaries = int(done.stdout.split()[0])
    assert temporaries > 300 * 300 * 4
    trace = tenure.load(tmp_path / "t")
    found = summary(trace, trace.scanned, trace.peak())
    assert found.peak.bytes < temporaries
    if native == "0":  # no uses are seen: nothing is said to be past its last
        assert (found.peak.past, trace.drag()) == (0, None)
    (line,) = [line for line in found.limits if "only arrays" in line]
    assert line == (
        "peak only partly checked: it counts only arrays, not the temporary memory of compiled programs, "
        f"which by XLA's figures is up to {size(temporaries)}, in jit_widest"
    )
    assert line in " ".join(report.render(found).split())
    assert '"what": "peak"' in report.as_json(found)
