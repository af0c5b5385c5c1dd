"""Stores on a real Ray cluster of three nodes: one child, one cluster, all the cases of `cases_ray.py`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.errors import StoreError
from tenure.sharing.store import Store

pytest.importorskip("ray")
HERE = Path(__file__).parent


def run(*words, timeout):
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *words]
    done = subprocess.run(program, capture_output=True, text=True, timeout=timeout, check=False, cwd=HERE.parents[1])
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-3000:]


@pytest.mark.timeout(600)
def test_on_three_nodes():
    run(HERE / "cases_ray.py", "-m", "not long", timeout=580)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_on_three_nodes_for_long():
    run(HERE / "cases_ray.py", "-m", "long", "--timeout", "1800", timeout=3500)


def test_without_a_cluster_none_is_started(tmp_path):
    program = """
import functools
from ray._private import services
services.find_gcs_addresses = functools.cache(set)  # of other clusters on this machine, nothing is seen
from tenure import Store
try:
    Store("ray:x")
except Exception as error:
    print(type(error), error)
"""
    given = {**os.environ, "RAY_TMPDIR": str(tmp_path)}  # and nothing of one that was
    for address in ("", "local"):  # where "local" tells Ray to start one
        given["RAY_ADDRESS"] = address
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=given, timeout=120)
        assert "StoreError" in done.stdout, done.stderr
        assert "ray:x: this process belongs to no Ray cluster, and none was found; start one" in done.stdout


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(StoreError, match="ray:x needs Ray: pip install"):
        Store("ray:x")
