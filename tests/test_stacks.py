"""Stacks, taken natively and in Python: both say the same of random calls."""

import random
import sys

import pytest

from tenure import stacks

CORE = stacks.core()
pytestmark = pytest.mark.skipif(CORE is None, reason="there is no native part to compare with")


def taken():
    return [CORE.capture(), stacks.capture()]


class Called:
    def __call__(self, rng, deep):
        return calls(rng, deep)

    @property
    def read(self):
        return calls(self.rng, self.deep)

    def __init__(self, rng=None, deep=0):
        self.rng, self.deep = rng, deep


def calls(rng, deep):
    """Call on in a random way, until it is deep enough."""
    if not deep:
        return taken()
    return rng.choice(
        [
            lambda: calls(rng, deep - 1),
            lambda: next(calls(rng, deep - 1) for _ in "1"),
            lambda: [calls(rng, deep - 1) for _ in "1"][0],
            lambda: max([0], key=lambda _: 1) == 0 and calls(rng, deep - 1),
            lambda: list(map(lambda _: calls(rng, deep - 1), "1"))[0],
            lambda: Called()(rng, deep - 1),
            lambda: Called(rng, deep - 1).read,
            lambda: eval("calls(rng, deep - 1)", {**globals(), "rng": rng, "deep": deep}),
        ]
    )()


def test_both_take_the_same_stack():
    for seed in range(300):
        rng = random.Random(seed)
        native, python = taken_at = calls(rng, rng.choice([0, 1, 3, 12, 200]))
        (inner, *outer), (own, *rest) = map(stacks.chain, taken_at)
        assert outer == rest
        assert inner[0] is own[0] is taken.__code__  # each at its own instruction
        assert stacks.text(native) == stacks.text(python)
        assert len(outer) < stacks._DEEPEST


def test_both_end_at_the_same_depth():
    def deep(number):
        return deep(number - 1) if number else taken()

    native, python = deep(min(400, sys.getrecursionlimit() // 2))
    assert len(stacks.chain(native)) == len(stacks.chain(python)) == stacks._DEEPEST
