"""Sessions: runs with a beginning and an end; what is born in them, who may go on, and what the late ones are told."""

import asyncio
import inspect
import threading
import weakref
from concurrent.futures import CancelledError

import pytest

import tenure

MAKERS = ("torch", "jax", "tensorflow", "numpy")


@pytest.fixture(params=MAKERS)
def ones(request):
    """A function that makes a small tensor."""
    module = request.getfixturevalue({"tensorflow": "tf", "numpy": "np"}.get(request.param, request.param))
    return (module.numpy if request.param == "jax" else module).ones


def line(back=1):
    return inspect.currentframe().f_back.f_lineno - back


def add(left, right=0):
    return left + right


def fail():
    raise ValueError("no")


def test_a_run_gives_what_the_function_gives():
    with tenure.Session() as session:
        assert session.run(add, 1, right=2) == 3
        assert session.submit(add, 2, right=2).result() == 4
        with pytest.raises(ValueError, match="no"):
            session.run(fail)
        with pytest.raises(ValueError, match="no"):
            session.submit(fail).result()
        assert not session.closed
    assert session.closed
    report = session.close()
    assert (report.done, report.failed, report.cancelled) == (2, 2, 0)


def test_results_leave_with_their_run_and_the_rest_ends_with_the_session(ones):
    stash = []

    def work():
        stash.append(ones((8,)))
        return {"result": [ones((4,))]}

    with tenure.Session(name="work") as session:
        mine = session.run(work)["result"][0]
        theirs = session.submit(work).result()["result"][0]
        assert [tenure.info(x).state for x in stash] == ["live", "live"]
    report = session.close()
    assert [float(x.sum()) if hasattr(x, "sum") else sum(x.numpy()) for x in (mine, theirs)] == [4.0, 4.0]
    if tenure.info(mine).framework == "numpy":
        return  # arrays of NumPy are nobody's: a scope does not claim them either
    assert report.escaped == 2
    assert report.born == 4
    assert len(report.remains) == 2
    if tenure.info(mine).framework == "tensorflow":
        assert len(report.remains.cannot) == 2  # and why
        return
    assert report.remains.freed_bytes == 64
    assert "tensors returned: 2" in str(report)
    with pytest.raises(tenure.TensorReleased, match=r"(?s)by the close of session 'work'.*return it from the run"):
        stash[0] + 1


def test_a_session_inside_a_scope_hands_its_results_to_it(torch):
    with tenure.scope("step") as step:
        with tenure.Session() as session:
            kept = session.run(torch.ones, 2)
            other = session.submit(torch.ones, 3).result()
        assert {id(x) for x in step.tensors()} == {id(kept), id(other)}
    with pytest.raises(tenure.TensorReleased):
        kept + 1


def test_keep_inside_a_run_takes_it_out_of_the_session(torch):
    stash = []
    with tenure.Session() as session:
        session.run(lambda: stash.append(tenure.keep(torch.ones(2))))
    assert stash[0].tolist() == [1, 1]


def test_nothing_is_kept_alive_that_would_die(torch):
    with tenure.Session() as session:
        seen = []

        def work():
            x = torch.ones(3)
            seen.append(weakref.ref(x))
            return x

        session.run(work)
        future = session.submit(work)
        assert future.result() is not None
        del future
        session.submit(add, 1).result()  # the worker has moved on
        assert [ref() for ref in seen] == [None, None]


def test_what_comes_too_late_is_told_where_and_why():
    with tenure.Session(name="train") as session:
        opened = line()
    closed = session.close

    def helper():
        return session.run(add, 1)

    used = line(2)
    with pytest.raises(tenure.SessionClosed) as late:
        helper()
    text = str(late.value)
    assert "cannot run add(): session 'train' is already closed" in text
    assert f"opened: {__file__}:{opened} in test_what_comes_too_late_is_told_where_and_why()" in text
    assert "closed: by the exit of its `with` block" in text
    assert f"used:   {__file__}:{used}" in text
    assert "session.lease()" in text
    assert closed().why == "by the exit of its `with` block"
    finding = tenure.explain(late.value)
    assert finding.code == "TN201"
    assert [(place.role, place.line) for place in finding.places] == [
        ("birth", opened),
        ("end", opened),
        ("use", used),
    ]


def test_every_door_of_a_closed_session():
    session = tenure.Session(name="shut")
    session.close()
    shut = line()

    async def go():
        async with session:
            pass

    doors = {
        "run": lambda: session.run(add, 1),
        "submit": lambda: session.submit(add, 1),
        "arun": lambda: asyncio.run(session.arun(add, 1)),
        "arun of a coroutine": lambda: asyncio.run(session.arun(asyncio.sleep, 0)),
        "lease": session.lease,
        "with": session.__enter__,
        "async with": lambda: asyncio.run(go()),
    }
    for door in doors.values():
        with pytest.raises(tenure.SessionClosed, match=f"test_session.py:{shut} .*by close()") as late:
            door()
        assert late.value.opened.line == shut - 1
        assert late.value.closed.line == shut
    assert session.close().ended  # twice is no error


def test_an_exception_closes_it_and_cancels_what_waits(torch):
    gate, stash = threading.Event(), []
    opened = line(-1)
    with pytest.raises(KeyError), tenure.Session(name="broken") as session:
        session.run(lambda: stash.append(torch.ones(2)))
        running = session.submit(gate.wait, 30)
        waiting = [session.submit(add, n) for n in range(10)]
        while not running.running():
            pass
        threading.Timer(0.05, gate.set).start()
        raise KeyError("x")
    report = session.close()
    assert report.ended
    assert (running.fate, report.done, report.cancelled) == ("done", 2, 10)
    assert {future.fate for future in waiting} == {
        f"cancelled when its session was closed at test_session.py:{opened}, by KeyError, which left its `with` block"
    }
    with pytest.raises(CancelledError, match=r"add\(\) in session 'broken' was cancelled when its session was closed"):
        waiting[0].result()
    assert tenure.info(stash[0]).state == "disposed"
    with pytest.raises(tenure.SessionClosed, match="by KeyError, which left its `with` block"):
        session.run(add, 1)


def test_closing_finishes_what_waits():
    session = tenure.Session(queue=500)
    futures = [session.submit(add, n) for n in range(500)]
    report = session.close()
    assert [future.result() for future in futures] == list(range(500))
    assert report.done == 500


def test_closing_can_cancel_what_waits():
    gate = threading.Event()
    session = tenure.Session(queue=500)
    first = session.submit(gate.wait, 30)
    futures = [session.submit(add, n) for n in range(100)]
    while not first.running():
        pass
    threading.Timer(0.05, gate.set).start()
    report = session.close(cancel=True)
    assert (report.done, report.cancelled) == (1, 100)
    assert all(future.cancelled() for future in futures)
    assert session.close().cancelled == 100


def test_the_holder_of_a_future_can_cancel_it():
    gate = threading.Event()
    with tenure.Session() as session:
        first = session.submit(gate.wait, 30)
        second = session.submit(add, 1)
        assert second.cancel()
        gate.set()
    assert (first.fate, second.fate) == ("done", "cancelled by its holder")
    assert session.close().cancelled == 1


def test_a_full_queue_makes_submitters_wait():
    gate, submitted = threading.Event(), []
    with tenure.Session(queue=2) as session:
        running = session.submit(gate.wait, 30)
        while not running.running():
            pass

        def more():
            for n in range(5):
                submitted.append(session.submit(add, n))

        thread = threading.Thread(target=more)
        thread.start()
        while len(submitted) < 2:
            pass
        thread.join(0.1)
        assert thread.is_alive()  # the third waits
        assert len(submitted) == 2
        gate.set()
        thread.join(30)
        assert [future.result() for future in submitted] == list(range(5))


def test_whoever_waits_for_room_is_told_of_the_end():
    gate, outcome = threading.Event(), []
    session = tenure.Session(queue=1)
    running = session.submit(gate.wait, 30)
    while not running.running():
        pass
    session.submit(add, 1)

    def more():
        try:
            session.submit(add, 2)
        except tenure.SessionClosed as error:
            outcome.append(error)

    thread = threading.Thread(target=more)
    thread.start()
    while session._core._waiting.room._waiters.__len__() < 1:
        pass
    threading.Timer(0.05, gate.set).start()
    session.close(cancel=True)
    thread.join(30)
    assert len(outcome) == 1


def test_a_lease_goes_on_past_the_block():
    with tenure.Session(name="shared") as session:
        lease = session.lease()
        taken = line()
    report = session.close()
    assert not report.ended
    assert report.leased[0].line == taken
    assert f"finishes after a lease taken at test_session.py:{taken}" in str(report)
    assert lease.run(add, 1, 1) == 2
    assert lease.submit(add, 2).result() == 2
    with pytest.raises(tenure.SessionClosed, match=rf"leased: .*:{taken} .*still open"):
        session.run(add, 1)
    second = lease.lease()
    lease.release()
    lease.release()
    assert not session.close().ended
    with second as also:
        assert also.run(add, 5) == 5
    assert session.close().ended
    with pytest.raises(tenure.SessionClosed, match=r"the lease was released by release\(\)"):
        lease.run(add, 1)
    with pytest.raises(tenure.SessionClosed):
        second.submit(add, 1)
    with pytest.raises(tenure.SessionClosed):
        session.lease()


def test_threads_and_tasks_with_leases():
    results, gate = [], threading.Event()

    def helper(lease):
        with lease as session:
            gate.wait(30)
            results.append(session.run(add, 1))
            results.append(session.submit(add, 2).result())

    with tenure.Session(workers=2) as session:
        threads = [threading.Thread(target=helper, args=(session.lease(),)) for _ in range(4)]
        [thread.start() for thread in threads]
    assert not session.close().ended
    gate.set()
    [thread.join(30) for thread in threads]
    assert sorted(results) == [1] * 4 + [2] * 4
    assert session.close().ended

    async def main():
        async def task(lease):
            async with lease as inner:
                await asyncio.sleep(0)
                return await inner.arun(add, 3)

        async with tenure.Session() as outer:
            tasks = [asyncio.create_task(task(outer.lease())) for _ in range(3)]
        assert not outer.close().ended
        assert await asyncio.gather(*tasks) == [3, 3, 3]
        return outer.close()

    assert asyncio.run(main()).ended


def test_a_lease_that_nobody_holds_is_given_back():
    with tenure.Session() as session:
        session.lease()  # dropped at once
        lease = session.lease()
    del lease
    assert session._core.ended.result(30).ended


def test_a_session_that_nobody_holds_ends():
    session = tenure.Session()
    core, future = session._core, session.submit(add, 1)
    del session
    assert core.ended.result(30).why == "no reference to it is left"
    assert future.result() == 1


def test_closing_from_within_a_run_waits_for_nobody():
    with tenure.Session(workers=2) as session:
        inside = session.run(session.close)
        assert not inside.ended
        assert "finishes after 1 run" in str(inside)
    assert session.close().ended
    session = tenure.Session()
    assert not session.submit(session.close).result(30).ended
    assert session._core.ended.result(30).ended
    session = tenure.Session()
    told = []
    session.submit(add, 1).add_done_callback(lambda future: told.append(session.close()))
    assert session._core.ended.result(30).ended
    session.close()
    assert len(told) == 1


def test_runs_inside_runs_and_submits_inside_submits():
    def tree(depth):
        if not depth:
            return 1
        left = session.submit(tree, depth - 1)
        return session.run(tree, depth - 1) + left.result()

    for workers in (1, 3):
        session = tenure.Session(workers=workers, queue=2)
        future = session.submit(tree, 7)
        session.close()  # what a run begins while it is finished belongs to it
        assert future.result() == 128


def test_a_run_that_is_going_on_is_not_torn_by_a_cancelling_close():
    def work():
        session.close(cancel=True)
        with pytest.raises(tenure.SessionClosed):
            session.submit(add, 1)  # would have to wait, and what waits is cancelled
        return session.run(add, 1, 1)

    session = tenure.Session()
    assert session.submit(work).result(30) == 2
    with pytest.raises(tenure.SessionClosed):
        session.run(add, 1)


def test_the_context_is_the_submitters(torch):
    store = tenure.Store("memory:")
    with tenure.Session() as session, tenure.variable_scope("model", store=store):
        made = session.submit(tenure.variable, "w", (2,), framework="torch").result()
        assert store["model/w"] is made
    assert made.requires_grad  # a variable is no session's to end
    assert made.tolist() == store["model/w"].tolist()


def test_coroutines_run_in_their_task(torch):
    async def main():
        stash = []

        async def work(n):
            stash.append(torch.ones(1))
            await asyncio.sleep(0)
            return torch.full((n,), 2.0)

        async with tenure.Session() as session:
            results = await asyncio.gather(*(session.arun(work, n) for n in range(10)))
            with pytest.raises(tenure.Unsupported, match="await session.arun"):
                session.run(work, 1)
            with pytest.raises(tenure.Unsupported, match="await session.arun"):
                session.submit(work, 1)
        assert [len(result) for result in results] == list(range(10))
        assert {tenure.info(x).state for x in stash} == {"disposed"}
        return session.close()

    report = asyncio.run(main())
    assert (report.done, report.escaped) == (10, 10)


def test_an_event_loop_is_never_blocked():
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        gate = threading.Event()
        ticking = asyncio.create_task(tick())
        async with tenure.Session(queue=1) as session:
            tasks = [asyncio.create_task(session.arun(gate.wait, 30)) for _ in range(5)]
            tasks.append(asyncio.create_task(session.arun(add, 1)))
            before = ticks
            while ticks < before + 100:
                await asyncio.sleep(0)
            tasks[2].cancel()
            tasks[5].cancel()
            gate.set()
            done = await asyncio.gather(*tasks, return_exceptions=True)
        ticking.cancel()
        return done

    done = asyncio.run(main())
    assert [isinstance(one, asyncio.CancelledError) for one in done] == [False, False, True, False, False, True]


def test_a_sync_close_in_the_loops_own_thread_does_not_wait_for_its_tasks():
    async def main():
        session = tenure.Session()
        started = asyncio.Event()

        async def work():
            started.set()
            await asyncio.sleep(0.05)
            return 1

        task = asyncio.create_task(session.arun(work))
        await started.wait()
        assert not session.close().ended
        assert await task == 1
        return session.close()

    assert asyncio.run(main()).ended


def test_bad_input():
    for workers in (0, -1, 1.5, "2", None, True, 10**6):
        with pytest.raises(tenure.Unsupported, match="workers is a number from 1"):
            tenure.Session(workers=workers)
    for queue in (0, -1, "2", None):
        with pytest.raises(tenure.Unsupported, match="queue is a number from 1"):
            tenure.Session(queue=queue)
    with pytest.raises(tenure.Unsupported, match="name is a str"):
        tenure.Session(name=3)
    for graph in (3, "graph", object()):
        with pytest.raises(tenure.Unsupported, match="takes a tf.Graph"):
            tenure.Session(graph=graph)
    with tenure.Session() as session:
        for what in (3, None, "add", [add]):
            for door in (session.run, session.submit, lambda x: asyncio.run(session.arun(x))):
                with pytest.raises(tenure.Unsupported, match="takes a function and its arguments"):
                    door(what)
        with pytest.raises(tenure.ScopeError, match="was entered already"):
            session.__enter__()
        with pytest.raises(TypeError):
            session.run()
    assert "closed" in repr(session)
