"""The search for an order: histories that have one, histories that have none, and random ones of both kinds."""

import itertools
import math
import random

import pytest
from linear import EMPTY, Op, after, check


def op(kind, began, returned, value=None, result=None, expect=0, name="x"):
    return Op(name, kind, began, returned, value, expect, result)


RIGHT = {
    "one after another": [op("put", 0, 1, "a", 1), op("get", 2, 3, result=("a", 1))],
    "nothing there": [op("get", 0, 1), op("delete", 2, 3)],
    "a read beside a put sees the old": [op("put", 0, 9, "a", 1), op("get", 1, 2)],
    "a read beside a put sees the new": [op("put", 0, 9, "a", 1), op("get", 1, 2, result=("a", 1))],
    "two puts, the order is theirs": [
        op("put", 0, 9, "a", 2),
        op("put", 0, 9, "b", 1),
        op("get", 10, 11, result=("a", 2)),
    ],
    "a loser of two that compare": [
        op("cas", 0, 9, "a", 1),
        op("cas", 0, 9, "b", None),
        op("get", 10, 11, result=("a", 1)),
    ],
    "deleted between": [
        op("put", 0, 1, "a", 1),
        op("delete", 2, 9, result=True),
        op("get", 3, 4, result=("a", 1)),
        op("get", 5, 6),
        op("cas", 10, 11, "b", 2),
    ],
    "killed, and it was done": [op("put", 0, math.inf, "a"), op("get", 5, 6, result=("a", 1))],
    "killed, and it was not done": [op("put", 0, math.inf, "a"), op("get", 5, 6)],
    "killed, and done late": [
        op("put", 0, math.inf, "a"),
        op("get", 5, 6),
        op("get", 7, 8, result=("a", 1)),
    ],
    "names do not touch each other": [
        op("put", 0, 1, "a", 1, name="x"),
        op("put", 0, 1, "b", 1, name="y"),
        op("get", 2, 3, result=("b", 1), name="y"),
    ],
    "versions may be left out": [op("put", 0, 1, "a", 4), op("put", 2, 3, "b", 9)],
}
WRONG = {
    "a lost put": [op("put", 0, 1, "a", 1), op("get", 2, 3)],
    "a read of what was never put": [op("get", 0, 1, result=("a", 1))],
    "a stale read": [op("put", 0, 1, "a", 1), op("put", 2, 3, "b", 2), op("get", 4, 5, result=("a", 1))],
    "back in time": [
        op("put", 0, 99, "a", 1),
        op("get", 1, 2, result=("a", 1)),
        op("get", 3, 4),
    ],
    "two winners of two that compare": [op("cas", 0, 9, "a", 1), op("cas", 0, 9, "b", 2)],
    "a loser without a winner": [op("cas", 0, 1, "a", None)],
    "a version that comes again": [
        op("put", 0, 1, "a", 1),
        op("delete", 2, 3, result=True),
        op("put", 4, 5, "b", 1),
    ],
    "deleted twice": [
        op("put", 0, 1, "a", 1),
        op("delete", 2, 9, result=True),
        op("delete", 2, 9, result=True),
    ],
    "killed, and seen before it began": [op("get", 0, 1, result=("a", 1)), op("put", 2, math.inf, "a")],
    "the wrong version": [op("put", 0, 1, "a", 3), op("get", 2, 3, result=("a", 2))],
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_order_is_found(name):
    for history in itertools.permutations(RIGHT[name]):
        assert check(list(history)) == []


@pytest.mark.parametrize("name", WRONG)
def test_no_order_is_found_where_there_is_none(name):
    for history in itertools.permutations(WRONG[name]):
        (trouble,) = check(list(history))
        assert "none of these can be next" in trouble


def true_history(seed, count, threads):
    """A history that has an order: calls take effect at moments that nobody sees."""
    rng = random.Random(seed)
    state, history = EMPTY, []
    free = [0.0] * threads
    for number in range(count):
        who = min(range(threads), key=free.__getitem__)
        began = free[who] + rng.random()
        history.append([began, began + rng.random() * 3, who, number])
        free[who] = history[-1][1]
    told = []
    for moment, began, returned, number in sorted(
        (rng.uniform(began, returned), began, returned, number) for began, returned, _, number in history
    ):
        kind = rng.choice(["put", "cas", "get", "delete"])
        expect = rng.choice([0, state[1], state[2]])
        value, version, last = state
        result = {
            "get": (value, version) if version else None,
            "delete": True if version else None,
            "put": last + 1,
            "cas": last + 1 if expect == version else None,
        }[kind]
        told.append(Op("x", kind, began, returned, number, expect, result))
        state = after(state, told[-1])
        assert state is not None
    return told


def brute(history):
    """Every order that the times allow, one by one."""

    def go(rest, state):
        if not rest:
            return True
        earliest = min(one.returned for one in rest)
        return any(
            (following := after(state, one)) is not None and go([two for two in rest if two is not one], following)
            for one in rest
            if one.began <= earliest
        )

    return go(history, EMPTY)


def test_random_histories_are_judged_as_brute_force_judges_them():
    rng, wrong = random.Random(0), 0
    for seed in range(400):
        history = true_history(seed, 7, 3)
        assert check(history) == []
        number = rng.randrange(len(history))
        spoilt = history[number]
        lie = rng.choice([None, True, 1, 2, (0, 1), (1, 2), (rng.randrange(7), rng.randrange(1, 4))])
        history[number] = Op("x", spoilt.kind, spoilt.began, spoilt.returned, spoilt.value, spoilt.expect, lie)
        try:
            expected = brute(history)
        except TypeError:
            continue  # a lie that no call could tell
        assert (check(history) == []) == expected
        wrong += not expected
    assert wrong > 100


def test_long_histories_are_judged_in_time():
    history = true_history(1, 1500, 8)
    assert check(history) == []
    late = max(range(len(history)), key=lambda number: history[number].began)
    history[late] = Op("x", "get", history[late].began, history[late].returned, result=("never", 10**6))
    assert check(history)
