"""A real Ray cluster of three nodes, and processes on them that have a store open, for `cases_ray.py`."""

import logging
import os
import random
import signal
import time

import linear
import numpy
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tenure.errors import StoreError
from tenure.sharing.store import Store
from tenure.sharing.store.ray.records import INDEX

FRAMEWORKS = ("torch", "numpy", "jax", "tensorflow")
SPACE = 120 * 2**20
# A dead node is noticed after two seconds; Ray's own default is about fifteen.
QUICK = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 4,
}


class Nodes:
    """The cluster: `head`, where the tests run, and two nodes besides, started anew when one was killed."""

    def __init__(self):
        os.environ["PYTHONPATH"] = os.path.dirname(__file__)  # whoever reads a function of this file imports it
        head = {"num_cpus": 2, "object_store_memory": SPACE, "include_dashboard": False, "_system_config": QUICK}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.head = self.cluster.head_node
        self.others = [self.start(), self.start()]
        self.opened = {}
        ray.init(address=self.cluster.address, logging_level=logging.ERROR, log_to_driver=False)

    def start(self):
        return self.cluster.add_node(num_cpus=2, object_store_memory=SPACE)

    def on(self, node):
        """A process on that node that has the store open."""
        if node.node_id not in self.opened:
            where = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
            self.opened[node.node_id] = Elsewhere.options(scheduling_strategy=where).remote(URL)
        return self.opened[node.node_id]

    def shoot(self, node):
        """Kill that process; its number."""
        number = do(self.on(node).number.remote())
        del self.opened[node.node_id]
        kill(number)
        return number

    def kill(self, node):
        """End a node as a power cut would, and wait until the cluster knows."""
        self.opened.pop(node.node_id, None)
        self.cluster.remove_node(node, allow_graceful=False)
        until(lambda: not any(one["Alive"] for one in ray.nodes() if one["NodeID"] == node.node_id))
        self.others[self.others.index(node)] = self.start()


@pytest.fixture(scope="session")
def nodes():
    made = Nodes()
    yield made
    ray.shutdown()
    made.cluster.shutdown()


NAMESPACE = "cases"
URL = f"ray:{NAMESPACE}"


def actors():
    """The actors of the store, by name."""
    found = [one["name"] for one in ray.util.list_named_actors(all_namespaces=True) if one["namespace"] == NAMESPACE]
    return {name: ray.get_actor(name, namespace=NAMESPACE) for name in found}


def emptied(self, space):
    """An index as on its first day; those who wait at it are answered, and come again."""
    waiting = list(self._readers._waiting.values())
    self.__init__(space)

    async def start():
        for one in waiting:
            one.set()

    self._start = start


@pytest.fixture
def url(nodes):
    """An empty store. Its actors, and the processes that have it open, are there already: starting them takes time."""
    Store(URL).close()
    found = actors()
    index = found.pop(INDEX)
    blank = [one.__ray_call__.remote(lambda self: self.__init__()) for one in found.values()]
    do([*blank, *(one.let_go.remote() for one in nodes.opened.values())])
    do(index.__ray_call__.remote(emptied, NAMESPACE))
    return URL


@ray.remote(num_cpus=0)
class Elsewhere:
    """A process on some node that has the store open."""

    def __init__(self, url):
        self.store = Store(url)
        self.kept = {}

    def number(self):
        return os.getpid()

    def put(self, name, value, count=50_000, expect=None):
        return self.store.put(name, numpy.full(count, value), expect=expect)

    def read(self, name):
        value = self.store[name]
        return float(value[0]), value.nbytes

    def keep(self, name):
        self.kept[name] = self.store[name]
        return place(self.kept[name])

    def lease(self, name):
        self.kept[name] = self.store.lease(name)

    def let_go(self):
        self.kept.clear()

    def mixed(self, who, names, count):
        """A history of calls, for `linear.py`. All nodes are on this machine, so there is one clock."""
        return recorder(self.store, f"actor {who}").mixed(random.Random(who), names, count, who * 1_000_000)

    def delete(self, name, wait):
        start = time.monotonic()
        self.store.delete(name, wait=wait)
        return time.monotonic() - start


def recorder(store, who):
    return linear.Recorder(store, lambda value: numpy.full(3, value), lambda x: int(x[0]), time.monotonic, who)


def do(call):
    return ray.get(call, timeout=60)


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


def kill(number):
    os.kill(number, signal.SIGKILL)
    until(lambda: not running(number))


def running(number):
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def number_of(name):
    """The process of an actor of the store, once it is there."""
    while True:
        actor = ray.get_actor(name, namespace=NAMESPACE)
        try:
            return do(actor.__ray_call__.remote(lambda self: os.getpid()))
        except ray.exceptions.ActorUnavailableError:
            time.sleep(0.1)


def gone(store, name):
    try:
        return store[name] is None
    except StoreError:
        return True


def place(array):
    """Where an array lies, said so that two processes can compare it: the file mapped there, and the offset in it."""
    address = array.__array_interface__["data"][0]
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, _, offset, device, inode, *_ = line.split()
            start, end = (int(one, 16) for one in span.split("-"))
            if start <= address < end:
                return device, inode, int(offset, 16) + address - start
    raise AssertionError("not mapped")
