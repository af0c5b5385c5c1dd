"""What `test_ray.py` runs in one child, on one real cluster of three nodes: a put here, a read there, and the deaths."""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time

import linear
import numpy
import promises
import pytest
import ray
import ray_cluster
from ray_cluster import FRAMEWORKS, NAMESPACE, SPACE, URL, do, gone, kill, number_of, place, recorder, until

import tenure
from tenure.errors import NameMissing, StoreError
from tenure.sharing.store import Store
from tenure.sharing.store.ray.records import HOLDER, INDEX

nodes, url = ray_cluster.nodes, ray_cluster.url  # fixtures

# ------------------------------------------------------------------------------------------------ sharing


def test_put_on_one_node_read_on_others(nodes, url):
    store = Store(url)
    store["here"] = numpy.full(200_000, 1.5)
    one, two = (nodes.on(node) for node in nodes.others)
    assert do(one.put.remote("there", 2.5)) == 1
    assert do(one.read.remote("here")) == (1.5, 1_600_000)
    assert do(two.read.remote("there")) == (2.5, 400_000)
    assert store["there"].sum() == 50_000 * 2.5
    assert list(store) == ["here", "there"]
    assert store.entry("there").put.process == do(one.number.remote())


def test_a_store_can_be_given_to_a_task(nodes, url):
    store = Store(url)
    store["encoder/w"] = numpy.full(10, 2.5)

    @ray.remote(num_cpus=0)
    def double(encoder):
        encoder["double"] = encoder["w"] * 2

    do(double.remote(store.scope("encoder")))
    assert store["encoder/double"].tolist() == [5.0] * 10


def test_readers_on_a_node_share_the_bytes(nodes, url):
    store = Store(url)
    store["w"] = numpy.arange(100_000)
    reading = store.read("w")
    assert not reading.copied
    # The same bytes of the same file, in another process of this node.
    neighbour = nodes.on(nodes.head)
    assert do(neighbour.keep.remote("w")) == place(reading.value) == place(store["w"])


def test_what_was_put_outlives_the_process_that_put_it(nodes, url):
    other = nodes.on(nodes.others[0])
    do(other.put.remote("w", 4.0))
    nodes.shoot(nodes.others[0])
    program = f"""
import logging, numpy, ray
ray.init(address={nodes.cluster.address!r}, logging_level=logging.ERROR, log_to_driver=False)
from tenure import Store
Store({url!r})["of a driver"] = numpy.full(7, 5.0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    store = Store(url)
    assert store["w"][0] == 4.0
    assert store["of a driver"].tolist() == [5.0] * 7
    assert store.entry("of a driver").put.site.line == 5


def test_bytes_stay_with_a_reading_and_go_with_it(nodes, url):
    store = Store(url)
    count = SPACE // 4
    store["w"] = numpy.full(count, 1, "uint8")
    first = store["w"]
    remains = store.delete("w")
    assert remains.held_bytes == count
    assert f"process {os.getpid()}" in str(remains)
    for turn in range(2, 8):  # what was deleted must not be given to the next
        store["w"] = numpy.full(count, turn, "uint8")
        assert store["w"][-1] == turn
    assert (first == 1).all()
    del first
    assert store.delete("w").freed_bytes == count
    until(lambda: ray.available_resources()["object_store_memory"] == ray.cluster_resources()["object_store_memory"])


def test_a_delete_knows_readers_in_other_processes(nodes, url):
    store = Store(url)
    store["w"] = numpy.ones(1000)
    other = nodes.on(nodes.others[1])
    do(other.keep.remote("w"))
    (holder,) = store.delete("w").holders
    assert f"process {do(other.number.remote())}" in holder.name
    store["w"] = numpy.ones(1000)
    do(other.keep.remote("w"))
    do(other.let_go.remote())
    assert store.delete("w").held == ()


# ------------------------------------------------------------------------------------------------ leases


def test_a_lease_ends_with_its_process(nodes, url):
    store = Store(url)
    store["w"] = numpy.ones(10)
    other = nodes.on(nodes.others[0])
    do(other.lease.remote("w"))
    number = do(other.number.remote())
    assert [by.process for by in store.leases("w")] == [number]
    with pytest.raises(StoreError, match=f"is in use and was not deleted(.|\n)*process {number}"):
        store.delete("w")
    assert "w" in store
    nodes.shoot(nodes.others[0])
    assert store.leases("w") == []
    assert store.delete("w").freed_bytes == 80


def test_a_driver_that_was_killed_leases_nothing(nodes, url):
    store = Store(url)
    store["w"] = numpy.ones(10)
    program = f"""
import logging, os, signal, ray
ray.init(address={nodes.cluster.address!r}, logging_level=logging.ERROR, log_to_driver=False)
from tenure import Store
lease = Store({url!r}).lease("w")
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    store.delete("w", wait=30)


def test_a_delete_waits_for_the_last_lease(nodes, url):
    store = Store(url)
    store["w"] = numpy.ones(10)
    other = nodes.on(nodes.others[0])
    with store.lease("w") as value:
        waiting = other.delete.remote("w", 50)
        with pytest.raises(StoreError, match="in use"):
            store.delete("w", wait=0.3)
        assert not ray.wait([waiting], timeout=0.5)[0]
        store["w"] = numpy.zeros(10)  # a lease is of the name; what was read stays what it was
        assert value.sum() == 10
    assert do(waiting) < 20
    with pytest.raises(NameMissing, match="deleted: .*Elsewhere.delete"):
        store["w"]


# ------------------------------------------------------------------------------------------------ order


def histories(nodes, count, names=("x", "y"), kills=0):
    """What actors on all nodes, and this process, saw of the same names; the index is killed meanwhile."""
    everybody = [nodes.head, *nodes.others]
    calls = [nodes.on(node).mixed.remote(who + 1, list(names), count) for who, node in enumerate(everybody)]
    for _ in range(kills):
        time.sleep(1)
        kill(number_of(INDEX))
    mine = recorder(Store(URL), "driver")
    found = [op for call in calls for op in ray.get(call, timeout=600)]
    return found + mine.mixed(random.Random(0), list(names), 10, 9_000_000)


def test_actors_see_one_order(nodes, url):
    history = histories(nodes, 60)
    assert len(history) == 190
    assert linear.check(history) == []


@pytest.mark.long
@pytest.mark.parametrize("turn", range(10))
def test_actors_see_one_order_for_long(nodes, url, turn):
    history = histories(nodes, 300, (f"x{turn}", f"y{turn}", f"z{turn}"), kills=turn % 3)
    assert len(history) == 910
    assert linear.check(history) == []


# ------------------------------------------------------------------------------------------------ deaths


def test_the_index_dies_and_nothing_is_lost(nodes, url):
    store = Store(url)
    one, two = (nodes.on(node) for node in nodes.others)
    store["here"] = numpy.ones(1000)
    do(one.put.remote("there", 2.0))
    store["gone"] = numpy.ones(1)
    del store["gone"]
    do(two.lease.remote("there"))
    versions = {name: store.version(name) for name in store}
    kill(number_of(INDEX))
    assert {name: store.version(name) for name in store} == versions
    assert store["there"][0] == 2.0 and store["here"].sum() == 1000
    with pytest.raises(StoreError, match="in use"):
        store.delete("there")
    with pytest.raises(NameMissing, match="deleted: .*test_the_index_dies"):
        store["gone"]
    with pytest.raises(StoreError, match="was expected to be at version 7"):
        store.put("here", numpy.ones(1), expect=7)
    assert store.put("here", numpy.ones(1), expect=versions["here"]) > versions["here"]
    # One that was ended by hand is not started again by Ray, but by the next who asks.
    ray.kill(ray.get_actor(INDEX, namespace=NAMESPACE))
    assert sorted(store) == ["here", "there"]
    assert store.version("gone") == 0
    assert store.put("gone", numpy.ones(1)) > 2


def test_puts_that_returned_survive_the_index(nodes, url):
    """It is killed while writers count up, each by compare-and-set: none is lost, and none is done twice."""
    store = Store(url)
    store["n"] = numpy.zeros(1)
    done, stop = [], threading.Event()

    def count():
        mine = Store(url)
        while not stop.is_set():
            reading = mine.read("n")
            try:
                mine.put("n", reading.value + 1, expect=reading.version)
            except StoreError:
                continue
            done.append(1)

    writers = [threading.Thread(target=count) for _ in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(2):
        before = len(done)
        until(lambda: len(done) > before + 5)
        kill(number_of(INDEX))
    before = len(done)
    until(lambda: len(done) > before + 5)
    stop.set()
    for writer in writers:
        writer.join()
    assert store["n"][0] == len(done)


def test_a_holder_dies_with_what_nobody_reads(nodes, url):
    store = Store(url)
    other = nodes.on(nodes.others[0])
    do(other.put.remote("there", 2.0))
    store["lost"] = numpy.ones(1000)
    store["read here"] = numpy.full(1000, 3.0)
    store["read there"] = numpy.full(1000, 4.0)
    kept = store["read here"]
    do(other.keep.remote("read there"))
    kill(number_of(HOLDER + nodes.head.node_id))
    node = nodes.head.node_id[:8]
    until(lambda: gone(store, "lost"))  # the node's object store lets it go a moment later
    with pytest.raises(StoreError, match=f"'lost' .version 1. are lost: its owner on node {node}.*(.|\n)*put it again"):
        store["lost"]
    # Who holds a lost tensor gives it back, in whatever process.
    assert do(other.read.remote("read here"))[0] == 3.0
    assert store["read there"][0] == 4.0
    assert store.version("read there") == 1
    assert store["there"][0] == 2.0
    assert kept.sum() == 3000
    store["lost"] = numpy.zeros(1)
    assert store["lost"].tolist() == [0]
    assert do(other.read.remote("lost"))[0] == 0


def test_a_node_dies(nodes, url):
    store = Store(url)
    victim, survivor = nodes.others
    one, two = nodes.on(victim), nodes.on(survivor)
    for name in ("lost", "read", "put again"):
        do(one.put.remote(name, 2.0))
    do(two.put.remote("elsewhere", 5.0))
    store["leased"] = numpy.ones(10)
    do(one.lease.remote("leased"))
    do(two.keep.remote("read"))
    nodes.kill(victim)
    lost = (
        f"'lost' .version 1. are lost: node {victim.node_id[:8]} .*died(.|\n)*put: .*Elsewhere.put(.|\n)*put it again"
    )
    with pytest.raises(StoreError, match=lost):
        store["lost"]
    assert "lost" in store
    assert store["read"][0] == 2.0
    assert store["elsewhere"][0] == 5.0
    assert store.leases("leased") == []
    store["put again"] = numpy.ones(3)
    assert do(two.read.remote("put again"))[0] == 1
    store.delete("lost")
    with pytest.raises(NameMissing, match="deleted: .*test_a_node_dies"):
        store["lost"]


def test_the_node_of_the_index_dies(nodes, url):
    victim, survivor = nodes.others
    one, two = nodes.on(victim), nodes.on(survivor)
    do(one.put.remote("lost", 2.0))  # who comes first has the index
    do(two.put.remote("there", 3.0))
    store = Store(url)
    store["here"] = numpy.ones(5)
    do(one.put.remote("lost too", 2.0))
    do(one.put.remote("read", 6.0))
    kept = store["read"]
    nodes.kill(victim)
    assert store["here"].sum() == 5
    assert store["there"][0] == 3.0
    assert store["read"][0] == kept[0] == 6.0
    for name in ("lost too",):
        with pytest.raises(StoreError, match=f"'{name}' .version 1. are lost: node {victim.node_id[:8]}"):
            store[name]
    do(two.put.remote("there", 4.0))
    assert store["there"][0] == 4.0


# ------------------------------------------------------------------------------------------------ what is refused


def test_another_tenure_keeps_the_store(nodes):
    @ray.remote(num_cpus=0)
    class Stranger:
        def hello(self):
            return 99

    stranger = Stranger.options(name=INDEX, namespace="strange", lifetime="detached").remote()
    with pytest.raises(StoreError, match="opened by another version of tenure, with protocol 99; this version uses 1"):
        Store("ray:strange")
    ray.kill(stranger)


def test_bad_input(nodes, url):
    store = Store(url)
    for value in (numpy.array([object()]), [1, 2], "text", numpy.array(["a"])):
        with pytest.raises(tenure.TenureError):
            store["w"] = value
    for name in ("", "a//b", "../a", "a\0", "x" * 10_000, "/", 3):
        with pytest.raises(StoreError):
            store[name] = numpy.ones(1)
    with pytest.raises(StoreError):
        Store("ray:../up")
    with pytest.raises(tenure.TenureError):
        store.get("w", like="pandas") or store.read("w", like="pandas")
    assert list(store) == []
    store["größe/µ"] = numpy.ones(1)
    assert list(store) == ["größe/µ"]
    store.close()
    with pytest.raises(StoreError, match="was closed"):
        store["größe/µ"]


def test_a_tensor_larger_than_the_object_store(nodes, url):
    """Ray puts it on disk: slow, but it works; and the rest is not disturbed."""
    store = Store(url)
    store["small"] = numpy.ones(1)
    store["big"] = numpy.full(SPACE + 2**20, 7, "uint8")
    big = store["big"]
    assert big[0] == big[-1] == 7
    del big
    assert store.delete("big").freed_bytes == SPACE + 2**20
    assert store["small"][0] == 1


# ------------------------------------------------------------------------------------------------ frameworks
# At the end: with JAX imported, a process should not fork, and starting a node does.


def test_writes_in_place_reach_nobody(nodes, url):
    """Semantic 1: the bytes are shared, so nothing that a user does with one reading may change another."""
    import jax
    import tensorflow as tf
    import torch

    store = Store(url)
    whole = numpy.arange(4096, dtype="float32")
    store["w"] = whole
    before = store["w"]
    assert place(before) == place(store["w"])

    store["w"][:] = 7
    reading = store.read("w", like="torch")
    assert not reading.copied and isinstance(reading.value, torch.Tensor)
    reading.value.add_(1)
    assert reading.value[5] == 6

    reading = store.read("w", like="tensorflow")
    assert not reading.copied
    tf.raw_ops.InplaceAdd(x=reading.value, i=[0], v=tf.ones(1))
    variable = tf.Variable(store.read("w", like="tensorflow").value)
    variable.assign_add(tf.ones(4096))

    reading = store.read("w", like="jax")
    assert not reading.copied
    jax.jit(lambda x: x + 1, donate_argnums=0)(reading.value).block_until_ready()
    assert (before == whole).all()
    assert (store["w"] == whole).all()


def test_where_no_private_map_is_to_be_had(nodes, url, monkeypatch):
    from tenure.sharing.store.ray import private

    monkeypatch.setattr(private, "_files", {})
    monkeypatch.setattr(private, "_opened", lambda file: None)
    store = Store(url)
    store["w"] = numpy.arange(4096, dtype="float32")
    array = store["w"]
    assert not array.flags.writeable
    with pytest.raises(ValueError):
        array.flags.writeable = True
    reading = store.read("w", like="torch")
    assert reading.copied and "read-only" in reading.why
    reading.value.zero_()
    assert array[-1] == store["w"][-1] == 4095


class World:
    """A place for one store, as `conftest.py` has them for the other kinds."""

    kind, url = "ray", URL

    def __init__(self):
        self.opened = []

    def open(self):
        self.opened.append(Store(self.url))
        return self.opened[-1]

    def close(self):
        for store in self.opened:
            store.close()


@pytest.fixture
def world(url):
    made = World()
    yield made
    made.close()


@pytest.mark.parametrize(("name", "kind"), list(zip(promises.PROMISES, itertools.cycle(FRAMEWORKS))))
def test_promise(world, name, kind):
    promises.PROMISES[name](world, kind)


@pytest.mark.long
@pytest.mark.parametrize("name", promises.PROMISES)
def test_promise_in_every_framework(world, framework, name):
    promises.PROMISES[name](world, framework)
