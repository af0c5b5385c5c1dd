"""Scopes follow the code: tasks, generators, threads, exceptions and wrong orders each end exactly their own tensors."""

import asyncio
import contextlib
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import tenure
from tenure.lifetime import regions


def ended(*tensors):
    return [tenure.info(tensor).state == "disposed" for tensor in tensors]


def test_interleaved_tasks_each_end_their_own():
    order = []

    async def work(name, turns):
        async with tenure.scope(name) as scope:
            mine = []
            for turn in range(turns):
                mine.append(torch.full((3,), float(turn)))
                order.append(name)
                await asyncio.sleep(0)
            assert len(scope.tensors()) == turns
            kept = scope.keep(mine[0])
        assert ended(*mine) == [False] + [True] * (turns - 1)
        return kept, mine

    async def main():
        return await asyncio.gather(work("a", 3), work("b", 5), work("c", 4))

    results = asyncio.run(main())
    assert order[:6] == ["a", "b", "c", "a", "b", "c"]
    assert [kept.sum().item() for kept, _ in results] == [0.0, 0.0, 0.0]


def test_child_tasks_belong_to_the_scope_that_started_them():
    async def child(value):
        await asyncio.sleep(0)
        return torch.full((2,), value)

    async def main():
        async with tenure.scope("parent") as scope:
            made = await asyncio.gather(child(1.0), child(2.0))
            assert len(scope.tensors()) == 2
        return made

    assert ended(*asyncio.run(main())) == [True, True]


def test_a_task_that_outlives_its_scope_is_then_in_no_scope():
    async def late(go):
        await go.wait()
        return torch.ones(2)

    async def main():
        go = asyncio.Event()
        async with tenure.scope("parent"):
            task = asyncio.create_task(late(go))
            await asyncio.sleep(0)
        go.set()
        return await task

    assert ended(asyncio.run(main())) == [False]


def test_a_sibling_task_is_not_in_the_scope():
    async def main():
        inside, done = asyncio.Event(), asyncio.Event()

        async def scoped():
            with tenure.scope("scoped"):
                mine = torch.ones(2)
                inside.set()
                await done.wait()
            return mine

        async def plain():
            await inside.wait()
            made = torch.ones(3)
            done.set()
            return made

        return await asyncio.gather(scoped(), plain())

    assert ended(*asyncio.run(main())) == [True, False]


def test_generator_suspended_in_a_scope_does_not_own_its_consumers_tensors():
    def batches():
        with tenure.scope("generator") as scope:
            for value in range(3):
                batch = torch.full((2,), float(value))
                yield batch
            assert len(scope.tensors()) == 1, "a weak scope has forgotten the batches that were dropped"

    consumed = []
    for batch in batches():
        consumed.append(batch + 1)
    assert ended(*consumed) == [False] * 3
    assert ended(batch) == [True]


def test_generator_suspended_in_a_scope_is_consumed_in_another_scope():
    def numbers():
        with tenure.scope("generator") as inner:
            mine = torch.ones(1)
            yield
            more = torch.ones(2)
            assert {id(mine), id(more)} == set(map(id, inner.tensors()))
            yield
        yield mine, more

    generator = numbers()
    next(generator)
    with tenure.scope("consumer") as outer:
        theirs = torch.ones(3)
        next(generator)
        also = torch.ones(4)
        assert {id(theirs), id(also)} == set(map(id, outer.tensors()))
        mine, more = next(generator)
        assert ended(mine, more, theirs, also) == [True, True, False, False]
    assert ended(theirs, also) == [True, True]
    generator.close()


def test_consumer_scope_ends_while_the_generators_stays_open():
    def forever():
        with tenure.scope("generator") as scope:
            kept = torch.ones(1)
            while True:
                yield scope, kept

    generator = forever()
    with tenure.scope("consumer"):
        scope, kept = next(generator)
        mine = torch.ones(2)
    assert ended(mine, kept) == [True, False]
    assert scope.tensors()[0] is kept
    outside = torch.ones(3)
    generator.close()
    assert ended(kept, outside) == [True, False]


def test_two_generators_interleaved():
    def one(value):
        with tenure.scope(f"g{value}"):
            tensors = []
            for _ in range(3):
                tensors.append(torch.full((2,), float(value)))
                yield tensors

    pairs = list(zip(one(1), one(2), strict=True))
    first, second = pairs[-1]
    assert ended(*first, *second) == [True] * 6


def test_scope_opened_by_a_function_that_a_generator_calls():
    def helper():
        with tenure.scope("helper"):
            return torch.ones(2)

    def generator():
        with tenure.scope("generator") as scope:
            yield helper()
            assert not scope.tensors()
            inner = torch.ones(3)
            assert scope.tensors()[0] is inner
            yield inner

    first, second = list(generator())
    assert ended(first, second) == [True, True]


def test_decorated_generator_yields_escape_to_the_consumer():
    @tenure.scope
    def batches():
        hidden = torch.zeros(1)
        for value in range(2):
            temporary = torch.full((2,), float(value))
            yield temporary * 2, hidden.shape
        return torch.ones(5)

    with tenure.scope("consumer") as scope:
        got = [value for value, _ in batches()]
        assert set(map(id, got)) <= set(map(id, scope.tensors()))
    assert ended(*got) == [True, True]
    alive = [value for value, _ in batches()]
    assert ended(*alive) == [False, False]


def test_decorated_generator_passes_send_throw_and_return():
    @tenure.scope("echo")
    def echo():
        got = None
        while True:
            try:
                got = yield got
            except KeyError:
                return "stopped"

    generator = echo()
    assert next(generator) is None
    assert generator.send(5) == 5
    with pytest.raises(StopIteration, match="stopped"):
        generator.throw(KeyError)


def test_decorated_generator_holds_nothing_that_it_yielded():
    import weakref

    @tenure.scope
    def one():
        yield torch.ones(3)
        yield None

    generator = one()
    tensor = next(generator)
    dead = weakref.ref(tensor)
    del tensor
    assert dead() is None
    generator.close()


def test_generator_dropped_without_close_ends_its_tensors():
    held = []

    def generator():
        with tenure.scope("dropped"):
            held.append(torch.ones(2))
            yield

    iterator = generator()
    next(iterator)
    del iterator
    assert ended(*held) == [True]
    assert regions.opened() == []


def test_abandoned_async_generator_leaves_the_caller_in_its_own_scope():
    held = []

    async def numbers():
        async with tenure.scope("abandoned"):
            while True:
                held.append(torch.ones(2))
                yield held[-1]

    async def main():
        async for _ in numbers():
            break
        outside = torch.ones(3)
        with tenure.scope("caller") as scope:
            mine = torch.ones(4)
            assert [id(tensor) for tensor in scope.tensors()] == [id(mine)]
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return outside, mine

    outside, mine = asyncio.run(main())
    assert ended(outside, mine, *held) == [False, True, True]
    assert regions.opened() == []


def test_async_generator_awaiting_children_inside_its_scope():
    async def child():
        await asyncio.sleep(0)
        return torch.ones(2)

    async def numbers():
        async with tenure.scope("agen") as scope:
            made = await asyncio.gather(child(), child())
            assert len(scope.tensors()) == 2
            yield made

    async def main():
        async for made in numbers():
            outside = torch.ones(3)
        return made, outside

    made, outside = asyncio.run(main())
    assert ended(*made, outside) == [True, True, False]


def test_decorated_async_generator_and_coroutine():
    @tenure.scope
    async def numbers():
        for value in range(3):
            await asyncio.sleep(0)
            yield torch.full((2,), float(value)) + 1

    hidden = []

    @tenure.scope
    async def total():
        parts = [part async for part in numbers()]
        hidden.extend(parts)
        return sum(parts)

    result = asyncio.run(total())
    assert result.tolist() == [6.0, 6.0]
    assert ended(*hidden) == [True] * 3


def test_threads_started_inside_a_scope_are_in_no_scope_unless_carried():
    def work(box):
        box.append(torch.ones(2))

    plain, carried = [], []
    with tenure.scope("main") as scope:
        for thread in (
            threading.Thread(target=work, args=(plain,)),
            threading.Thread(target=tenure.carry(work), args=(carried,)),
        ):
            thread.start()
            thread.join()
        assert [id(tensor) for tensor in scope.tensors()] == [id(carried[0])]
    assert ended(plain[0], carried[0]) == [False, True]


def test_executor_work_is_carried_and_its_result_escapes_by_keep():
    with ThreadPoolExecutor(2) as pool, tenure.scope("main") as scope:
        results = list(pool.map(tenure.carry(lambda n: torch.full((2,), float(n)) * 2), range(4)))
        kept = scope.keep(results[3])
    assert ended(*results) == [True, True, True, False]
    assert kept.tolist() == [6.0, 6.0]


def test_a_thread_has_scopes_of_its_own():
    def work():
        with tenure.scope("thread") as scope:
            mine = torch.ones(2)
            assert len(scope.tensors()) == 1
        return mine

    with ThreadPoolExecutor(1) as pool, tenure.scope("main") as scope:
        mine = torch.ones(3)
        theirs = pool.submit(work).result()
        assert [id(tensor) for tensor in scope.tensors()] == [id(mine)]
    assert ended(mine, theirs) == [True, True]


def test_carried_coroutine_function():
    async def work():
        await asyncio.sleep(0)
        return torch.ones(2)

    with tenure.scope("main") as scope:
        carried = tenure.carry(work)
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(lambda: asyncio.run(carried())).result()
        assert len(scope.tensors()) == 1
    assert ended(made) == [True]


def test_carried_work_that_runs_after_the_scope_ended_is_in_the_outer_scope():
    with tenure.scope("outer") as outer:
        with tenure.scope("inner"):
            carried = tenure.carry(lambda: torch.ones(2))
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(carried).result()
        assert [id(tensor) for tensor in outer.tensors()] == [id(made)]
    assert ended(made) == [True]


def test_exception_through_three_scopes_ends_all_three():
    made = []
    with pytest.raises(ValueError, match="boom"), tenure.scope("a"):
        made.append(torch.ones(1))
        with tenure.scope("b"):
            made.append(torch.ones(2))
            with tenure.scope("c"):
                made.append(torch.ones(3))
                raise ValueError("boom")
    assert ended(*made) == [True] * 3
    assert regions.opened() == []


def test_out_of_order_exit_is_named_and_each_ends_its_own():
    outer, inner = tenure.scope("outer"), tenure.scope("inner")
    outer.__enter__()
    first = torch.ones(1)
    inner.__enter__()
    second = torch.ones(2)
    with pytest.raises(tenure.ScopeError, match="'outer' was left while scope 'inner'"):
        outer.__exit__(None, None, None)
    assert ended(first, second) == [True, False]
    third = torch.ones(3)
    inner.__exit__(None, None, None)
    assert ended(second, third) == [True, True]
    assert regions.opened() == []


def test_exit_stack_in_order_and_moved():
    with contextlib.ExitStack() as stack:
        stack.enter_context(tenure.scope("a"))
        first = torch.ones(1)
        stack.enter_context(tenure.scope("b"))
        second = torch.ones(2)
        later = stack.pop_all()
    assert ended(first, second) == [False, False]
    later.close()
    assert ended(first, second) == [True, True]


def test_scope_opened_in_one_function_and_closed_in_another_keeps_no_frame_alive():
    import weakref

    class Thing:
        pass

    def setup():
        thing = Thing()
        scope = tenure.scope("setup")
        scope.__enter__()
        return scope, weakref.ref(thing)

    scope, thing = setup()
    assert thing() is None
    tensor = torch.ones(2)
    scope.__exit__(None, None, None)
    assert ended(tensor) == [True]


def test_scope_use_makes_no_cyclic_garbage():
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            with tenure.scope("clean"):
                torch.ones(2)
            tenure.scope(lambda: torch.ones(2))()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [thing for thing in gc.garbage if type(thing).__module__.startswith("tenure")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert found == []


def test_tensors_used_by_a_running_thread_are_sealed_but_stay_until_it_is_done():
    # The other thread is inside a long matmul on `big`, without the interpreter lock, while `big` is disposed.
    big = torch.randn(1500, 1500)
    expected = big @ big
    started, results, errors = threading.Event(), [], []

    def work(tensor):
        try:
            for _ in range(50):
                started.set()
                results.append(tensor @ tensor)
        except tenure.TensorReleased as error:
            errors.append(error)

    thread = threading.Thread(target=work, args=(big,))
    thread.start()
    started.wait()
    remains = tenure.dispose(big)
    thread.join()
    assert errors, "the next use in the other thread must raise"
    assert ended(big) == [True]
    assert remains.freed_bytes + remains.held_bytes == 1500 * 1500 * 4
    assert all(torch.equal(result, expected) for result in results)


@pytest.mark.parametrize("allocations", range(1, 6))
def test_a_collection_while_a_scope_finds_what_lives(allocations):
    """What only a cycle holds may go then; what was found alive is held."""

    class Node:
        pass

    with tenure.scope():
        torch.ones(1)
    spare = [[] for _ in range(300)]  # so that a new list is a new allocation
    x, node = torch.ones(3), Node()
    node.tensor, node.me, x.back = x, node, node
    ref = weakref.ref(x)
    del x, node
    threshold = gc.get_threshold()
    gc.set_threshold(gc.get_count()[0] + allocations, 1000, 1000)
    try:
        groups, _ = regions.hook().survivors([(ref, None, -1), (ref, None, -1, "adopted")])
    finally:
        gc.set_threshold(*threshold)
    found = [handle for members in groups.values() for handle in members]
    assert [tuple(handle.shape) for handle in found] in ([(3,)], [])
    del spare
