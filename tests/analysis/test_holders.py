"""Who keeps a tensor: every kind of holder planted and found, and what a search must not do."""

from __future__ import annotations

import gc
import re
import sys
import time
import weakref

import planted
import pytest

import tenure
from tenure.analysis.holders import find


def matching(x, kind, pattern):
    return [holder for holder in tenure.holders(x) if holder.kind == kind and re.search(pattern, holder.name)]


def told(x):
    return [f"{holder.kind}: {holder.name}" for holder in tenure.holders(x)]


def check(plant, x):
    steps = plant(x)
    kind, pattern = next(steps)
    found = matching(x, kind, pattern)
    assert found, told(x)
    assert len(found) == 1, "one reference, one holder"
    next(steps, None)
    assert not matching(x, kind, pattern), told(x)


@pytest.mark.parametrize("plant", planted.EVERYWHERE, ids=lambda plant: plant.__name__)
def test_planted(plant, torch):
    check(plant, torch.ones(3))


@pytest.mark.parametrize("plant", planted.TORCH, ids=lambda plant: plant.__name__)
def test_planted_in_torch(plant, torch):
    check(plant, torch.ones(3))


@pytest.mark.parametrize("plant", [planted.global_list, planted.closure, planted.a_dataclass, planted.lru_cache])
def test_planted_in_jax(plant, jax):
    check(plant, jax.numpy.ones(3) * 2)


@pytest.mark.parametrize("plant", [planted.global_list, planted.closure, planted.a_dataclass, planted.lru_cache])
def test_planted_in_tensorflow(plant, tf):
    check(plant, tf.constant([1.0, 2.0]))


@pytest.mark.parametrize(
    "plant", [planted.global_list, planted.nested_containers, planted.closure, planted.attribute, planted.generator, planted.lru_cache]
)
def test_planted_in_numpy(plant, np):
    # Arrays, and the tuples and dicts that hold nothing else, are unknown to the garbage collector.
    gc.collect()
    check(plant, np.ones(3))
