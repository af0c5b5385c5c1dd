"""A folder of ranks on a Ray cluster of several nodes says what it says on one machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tenure.traces import load

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

HERE = Path(__file__).parent
CHILD = """
import json, logging, sys
import ray
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 * 2**20})
for _ in range(2):
    cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)
ray.data.DataContext.get_current().enable_progress_bars = False
nodes = len(ray.nodes())
sys.path.insert(0, sys.argv[1])
from test_cluster import told
import tenure

found = tenure.load(sys.argv[2], cluster=True)
print("TOLD", json.dumps([nodes, told(found)], default=str))
ray.shutdown()
cluster.shutdown()
"""


def told(trace):
    """All that the analyses say."""
    from tenure.analysis.summary import summary

    peak, drag = trace.peak(), trace.drag()
    scan = trace.scanned
    told = summary(trace, scan)
    sites = dict(zip(scan.words("site"), scan.sites().to_pylist(), strict=True))
    width, last, count, size = scan.growth()
    growth = {
        site: [list(count[at * 128 : at * 128 + 128]), list(size[at * 128 : at * 128 + 128])]
        for at, site in enumerate(scan.words("site"))
    }
    return {
        "peak": str(peak), "whole": repr(peak), "drag": repr(drag), "sites": sites, "growth": [width, last, growth],
        "facts": list(scan.facts), "alive": str(trace.diff(at=2, to=5)), "left": repr(told.left), "curve": list(told.curve),
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    sys.path.insert(0, str(HERE.parent / "trace"))
    sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))
    from made_traces import make
    from replicate import split

    place = tmp_path_factory.mktemp("cluster")
    make(place / "one", count=1500)
    split(place / "one", place / "ranks", 6)
    return place / "ranks"


def test_a_cluster_says_the_same(folder):
    import json

    words = [sys.executable, "-c", CHILD, str(HERE), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("TOLD "))
    nodes, found = json.loads(line.removeprefix("TOLD "))
    assert nodes == 3
    assert found == json.loads(json.dumps(told(load(folder)), default=str))


def test_coarse_curves_find_the_same_peak(folder, monkeypatch):
    """Without Ray: what the nodes do is done here, with curves so coarse that every peak must be asked for."""
    from tenure.analysis import cluster

    monkeypatch.setattr(cluster, "_each", lambda work, files, **given: [work(file, **given) for file in files])
    monkeypatch.setattr(cluster, "_COARSE", 8)
    here, there = load(folder), load(folder, cluster=True)
    assert there.scanned.peaks() == here.scanned.peaks()
    assert repr(there.peak()) == repr(here.peak())
    for at in range(6):
        assert there.scanned.peaks(at) == here.scanned.peaks(at)


def test_without_ray_it_says_what_to_install(folder, monkeypatch):
    import tenure

    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(tenure.Unsupported, match=r'pip install "ray\[data\]"'):
        load(folder, cluster=True)
