"""JAX makes aliases and parts of an array when it is read, and keeps some of them in the array. They retain nothing."""

import gc
import json
import os
import subprocess
import sys

import tenure
from tenure.frameworks.jax import distinct


def freed(remains):
    return sum(remnant.nbytes for remnant in remains.freed)


def make(jax):
    return (jax.numpy.ones((64, 64)) * 3).block_until_ready()


def names(holders):
    return [holder.links[0].text for holder in holders]


def read(array):
    """Everything with which JAX makes an alias."""
    array.addressable_shards, array.global_shards, array.addressable_data(0)
    array.unsafe_buffer_pointer(), repr(array), array.tolist()


def aliases(jax, array):
    start = array.unsafe_buffer_pointer()
    return [one for one in jax.live_arrays() if one is not array and one.unsafe_buffer_pointer() == start]


def test_what_looks_at_an_array_leaves_it_as_it_was(jax):
    array = make(jax)
    before = dict(vars(array))
    for look in (tenure.info, tenure.holders, tenure.remains, lambda array: tenure.memory()):
        look(array)
        assert vars(array) == before
    made = aliases(jax, array)
    assert [type(one) for alias in made for one in gc.get_referrers(alias) if one is not made] == []


def test_what_an_array_keeps_for_itself_does_not_retain_it(jax):
    array = make(jax)
    read(array)
    assert names(tenure.holders(array)) == ["array"]
    assert freed(tenure.dispose(array)) == 64 * 64 * 4
    assert array.is_deleted()


def test_scopes_end_what_was_read_in_them(jax):
    outside = jax.numpy.ones((64, 64)) * 3
    with tenure.scope() as scope:
        inside = jax.numpy.ones((64, 64)) * 2
        for array in (inside, outside):
            read(array)
            tenure.info(array)
        tenure.memory()
    assert inside.is_deleted()
    assert freed(scope.remains) >= 64 * 64 * 4
    assert float(outside.sum()) == 3 * 64 * 64


def test_a_part_that_the_program_has_retains_the_array(jax):
    array = make(jax)
    part = array.addressable_data(0)
    remains = tenure.dispose(array)
    assert freed(remains) == 0
    assert [names(remnant.holders) for remnant in remains.held] == [["part"]]
    assert float(part.sum()) == 3 * 64 * 64


def test_an_array_that_was_looked_at_can_be_donated(jax):
    array = make(jax)
    tenure.info(array), tenure.holders(array), tenure.memory()
    jax.jit(lambda array: array + 1, donate_argnums=0)(array)
    assert array.is_deleted()


def test_leak_checks_count_an_array_once(jax):
    array = make(jax)
    read(array)
    mine = {id(one) for one in (array, *aliases(jax, array))}
    assert len([one for one in distinct(jax.live_arrays()) if id(one) in mine]) == 1


SHARDED = """
import gc, json, os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import tenure
from tenure.frameworks.jax import distinct

halves = NamedSharding(Mesh(numpy.array(jax.devices()), ("d",)), PartitionSpec("d"))
told = {}

def make():
    return jax.device_put(jnp.ones((64, 64)), halves).block_until_ready()

def freed(remains):
    return sum(remnant.nbytes for remnant in remains.freed)

def dispose():
    x = make()
    return freed(tenure.dispose(x)), x.is_deleted()

def after_reading():
    x = make()
    x.addressable_shards, repr(x), tenure.memory(), tenure.info(x)
    holders = [holder.links[0].text for holder in tenure.holders(x)]
    return holders, freed(tenure.dispose(x)), x.is_deleted()

def released():
    x = make()
    tenure.dispose(x)
    try:
        x.addressable_shards
    except tenure.TensorReleased as error:
        return "used after it was released" in str(error)

def part_held():
    x = make()
    part = x.addressable_shards[1].data
    remains = tenure.dispose(x)
    names = {"/".join(link.text for link in holder.links) for remnant in remains.held for holder in remnant.holders}
    return freed(remains), sorted(names), float(part.sum())

def scopes():
    outside = make()
    with tenure.scope():
        inside = make()
        for array in (inside, outside):
            array.addressable_shards, repr(array), tenure.info(array)
        tenure.memory()
    return inside.is_deleted(), float(outside.sum())

def memory():
    x = make()
    return [[sum(usage.nbytes for usage in tenure.memory().by.values()) for _ in range(2)], len(distinct(jax.live_arrays()))]

for case in (dispose, after_reading, released, part_held, scopes, memory):
    gc.collect()
    told[case.__name__] = case()
print(json.dumps(told))
"""


def test_arrays_on_several_devices(jax):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SHARDED], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    whole = 64 * 64 * 4
    assert json.loads(done.stdout) == {
        "dispose": [whole, True],
        "after_reading": [["x"], whole, True],
        "released": True,
        "part_held": [
            0,
            ["native code", "part"],
            64 * 32,
        ],  # the other half belongs to the array, which JAX cannot split
        "scopes": [True, 64 * 64],
        "memory": [[whole, whole], 1],
    }
