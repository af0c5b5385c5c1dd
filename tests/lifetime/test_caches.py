"""What functools' caches hold is for later calls: a scope in which it was made leaves it alone."""

import functools
import gc
import weakref
from types import SimpleNamespace

import pytest

import tenure


@pytest.fixture(params=["torch", "jax"])
def ones(request):
    library = request.getfixturevalue(request.param)
    return (library if request.param == "torch" else library.numpy).ones


class Table(list):
    """A container of somebody's."""


class Rule:
    """An object of somebody's."""

    def __init__(self, ones, n):
        self.nodes = ones(n)

    def __getitem__(self, index):
        return self.nodes


SHAPES = {
    "itself": lambda ones, n: ones(n),
    "pair": lambda ones, n: (ones(n), ones(n)),
    "tuple of tuples": lambda ones, n: ((ones(n),),),
    "dict": lambda ones, n: {"nodes": [ones(n)]},
    "own list": lambda ones, n: Table([ones(n)]),
    "object": lambda ones, n: Rule(ones, n),
}
CACHES = {"limited": functools.lru_cache(4), "unlimited": functools.cache}


def first(value):
    while not hasattr(value, "shape"):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("shape", SHAPES)
def test_cached_results_outlive_the_scope_that_needed_them_first(ones, cache, shape):
    nodes = CACHES[cache](functools.partial(SHAPES[shape], ones))
    for _ in range(2):
        with tenure.scope():
            assert float((first(nodes(5)) * 2).sum()) == 10


def test_a_cached_method_and_a_cache_in_a_closure(ones):
    def make():
        class Rule:
            @functools.lru_cache
            def nodes(self):
                return ones(3)

        return Rule()

    rule = make()
    for _ in range(2):
        with tenure.scope():
            assert float(rule.nodes().sum()) == 3


def test_other_containers_are_no_caches(ones):
    listed, named, plain = [], {}, SimpleNamespace()
    nodes = functools.cache(ones)
    with tenure.scope():
        nodes(3)
        listed.append(ones(4))
        named["x"] = ones(4)
        plain.x = ones(4)
    assert [tenure.info(x).state for x in (listed[0], named["x"], plain.x)] == ["disposed"] * 3
    assert tenure.info(nodes(3)).state == "live"


def test_what_a_cache_gave_up_is_ended(ones):
    nodes = functools.lru_cache(ones)
    with tenure.scope():
        held = [nodes(3)]
        nodes.cache_clear()
    assert tenure.info(held[0]).state == "disposed"


def test_caches_are_not_kept_alive(ones):
    nodes = functools.cache(functools.partial(ones))
    with tenure.scope():
        nodes(3)
    gone = weakref.ref(nodes)
    del nodes
    gc.collect()
    assert gone() is None
