"""What was born in a scope is its own, however many come and go, in whatever order, and whatever runs meanwhile."""

import gc
import random
import threading

import pytest

import tenure

torch = pytest.importorskip("torch")


def test_of_many_births_those_that_live_are_known_in_their_order():
    draws = random.Random(0)
    with tenure.scope() as scope:
        kept = []
        for turn in range(700):
            tensor = torch.ones(1)
            if draws.random() < 0.2:
                kept.append(tensor)
            del tensor
            if turn % 97 == 0:
                assert [id(one) for one in scope.tensors()] == list(map(id, kept))
                del kept[::2]
        assert [id(one) for one in scope.tensors()] == list(map(id, kept))
    assert all(tenure.info(one).state == "disposed" for one in kept)


def test_births_of_scopes_that_take_turns_are_not_mixed_up():
    def makes(count):
        with tenure.scope("inside") as scope:
            kept = []
            for _ in range(count):
                kept.append(torch.ones(2))
                yield len(scope.tensors())
            yield [id(one) for one in scope.tensors()] == list(map(id, kept))

    with tenure.scope() as scope:
        one, other, kept = makes(70), makes(70), []
        for turn in range(1, 71):
            assert next(one) == turn
            kept.append(torch.ones(1))
            assert next(other) == turn
        assert next(one) is next(other) is True
        assert [id(tensor) for tensor in scope.tensors()] == list(map(id, kept))


def test_births_of_threads_that_take_turns_are_not_mixed_up():
    wrong = []

    def work(seed):
        for _ in range(30):
            with tenure.scope() as scope:
                kept = [torch.ones(seed) for _ in range(60)]
                if [id(one) for one in scope.tensors()] != list(map(id, kept)):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_a_collection_makes_meanwhile_is_known_too():
    made = []

    class Makes:
        def __init__(self):
            self.itself = self

        def __del__(self):
            made.append(torch.ones(3))

    before = gc.get_threshold()
    gc.set_threshold(5)  # so that one runs wherever one may
    try:
        with tenure.scope() as scope:
            kept = []
            for _ in range(300):
                Makes()
                kept.append(torch.ones(1))
                [[] for _ in range(3)]
            gc.collect()
            found = {id(one) for one in scope.tensors()}
            assert len(made) == 300
            assert found == {id(one) for one in (*kept, *made)}
    finally:
        gc.set_threshold(*before)
    assert all(tenure.info(one).state == "disposed" for one in (*kept, *made))
