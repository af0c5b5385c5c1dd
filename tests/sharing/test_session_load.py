"""Sessions and variables under load: no future is lost, nothing deadlocks, all counts add up."""

import collections
import concurrent.futures
import faulthandler
import random
import threading

import pytest

import tenure


@pytest.fixture(autouse=True)
def watchdog():
    """A deadlock shows where every thread stands, and fails."""
    faulthandler.dump_traceback_later(200, exit=False)
    yield
    faulthandler.cancel_dump_traceback_later()


def fate(future):
    """What became of a future, asked in every way there is."""
    assert future.done(), future
    if future.cancelled():
        assert "cancelled" in future.fate
        return "cancelled"
    error = future.exception(0)
    assert future.fate == ("done" if error is None else f"failed with {type(error).__name__}")
    return "done" if error is None else "failed"


def work(n):
    if n % 7 == 0:
        raise ValueError(n)
    return n


def close_under_load(seed):
    """Eight threads submit as fast as they can, while the session is closed: what became of each future."""
    rng = random.Random(seed)
    session = tenure.Session(workers=rng.randint(1, 4), queue=rng.choice([1, 3, 64, 1000]), name=str(seed))
    futures, refused, begun = [], [], threading.Semaphore(0)

    def submit():
        for n in range(400):
            try:
                futures.append((n, session.submit(work, n)))
            except tenure.SessionClosed:
                refused.append(n)
                return
            if n % 50 == 9:
                futures[-1][1].cancel()
            begun.release()

    threads = [threading.Thread(target=submit) for _ in range(8)]
    [thread.start() for thread in threads]
    for _ in range(rng.choice([0, 1, 10, 300, 2000])):
        begun.acquire()
    report = session.close(cancel=rng.random() < 0.5)
    [thread.join(60) for thread in threads]
    assert not any(thread.is_alive() for thread in threads)
    assert report.ended
    counts = collections.Counter(fate(future) for _, future in futures)
    assert (report.done, report.failed, report.cancelled) == (counts["done"], counts["failed"], counts["cancelled"])
    for n, future in futures:
        if fate(future) == "done":
            assert future.result() == n
    return len(futures), counts


def test_closing_under_load_loses_no_future():
    total, counts = 0, collections.Counter()
    for seed in range(16):
        many, fates = close_under_load(seed)
        total += many
        counts += fates
    assert sum(counts.values()) == total
    assert all(counts[one] > 100 for one in ("done", "failed", "cancelled")), counts


class Shaker:
    """Threads that do everything at once with sessions and variables."""

    def __init__(self, torch, turns):
        self.torch, self.turns = torch, turns
        self.store = tenure.Store("memory:")
        self.session = tenure.Session(workers=3, queue=16)
        self.reports, self.futures, self.runs = [], [], collections.Counter()
        self.lock = threading.Lock()
        self.done = collections.Counter()

    def shake(self, seed):
        rng = random.Random(seed)
        mine = collections.Counter()
        futures, runs = [], 0
        for _ in range(self.turns):
            what = rng.choice(
                (self.ask, self.ask, self.create, self.delete, self.put, self.run, self.submit, self.lease)
            )
            if rng.random() < 0.002:
                what = self.close
            try:
                runs += what(rng, futures) or 0
            except (tenure.NameTaken, tenure.NameMissing, tenure.SessionClosed) as error:
                mine[type(error).__name__] += 1
            mine[what.__name__] += 1
            if len(futures) > 200:
                self.settle(futures, 100)
        self.settle(futures, 0)
        with self.lock:
            self.done += mine
            self.runs["run"] += runs

    def settle(self, futures, leave):
        """Wait for the oldest, so that the list stays short; each is done, failed or cancelled."""
        while len(futures) > leave:
            future = futures.pop(0)
            concurrent.futures.wait([future], 100)
            with self.lock:
                self.runs[fate(future)] += 1

    def scope(self, rng, reuse):
        return tenure.variable_scope(f"s{rng.randrange(4)}", reuse, store=self.store)

    def ask(self, rng, futures):
        with self.scope(rng, rng.choice(("auto", "auto", True))) as scope:
            made = tenure.variable(f"v{rng.randrange(8)}", (2,), float(scope.name[1:]), framework="torch")
        assert made.tolist() == [float(scope.name[1:])] * 2

    def create(self, rng, futures):
        with self.scope(rng, None) as scope:
            tenure.variable(f"v{rng.randrange(8)}", (2,), float(scope.name[1:]), framework="torch")

    def delete(self, rng, futures):
        self.store.delete(f"s{rng.randrange(4)}/v{rng.randrange(8)}")

    def put(self, rng, futures):
        scope = rng.randrange(4)
        self.store[f"s{scope}/v{rng.randrange(8)}"] = self.torch.full((2,), float(scope))

    def run(self, rng, futures):
        assert self.session.run(work, 1) == 1
        return 1

    def submit(self, rng, futures):
        futures.append(self.session.submit(work, rng.randrange(50)))
        if rng.random() < 0.1:
            futures[-1].cancel()

    def lease(self, rng, futures):
        with self.session.lease() as lease:
            futures.append(lease.submit(work, rng.randrange(50)))
            return 1 if lease.run(work, 2) == 2 else 0

    def close(self, rng, futures):
        old = self.session
        self.session = tenure.Session(workers=3, queue=16)
        report = old.close(cancel=rng.random() < 0.5)
        with self.lock:
            self.reports.append(old)
        assert report.closed is not None


def shaken(torch, threads, turns):
    shaker = Shaker(torch, turns)
    failures = []

    def one(seed):
        try:
            shaker.shake(seed)
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=one, args=(seed,)) for seed in range(threads)]
    [thread.start() for thread in running]
    [thread.join(3000) for thread in running]
    assert not any(thread.is_alive() for thread in running)
    assert failures == []
    shaker.session.close()
    reports = [session._core.ended.result(60) for session in [*shaker.reports, shaker.session]]
    assert sum(report.done for report in reports) == shaker.runs["done"] + shaker.runs["run"]
    assert sum(report.failed for report in reports) == shaker.runs["failed"]
    assert sum(report.cancelled for report in reports) == shaker.runs["cancelled"]
    return shaker


def test_sixteen_threads_do_everything_at_once(torch):
    shaker = shaken(torch, 16, 300)
    assert (
        sum(shaker.done[what] for what in ("ask", "create", "delete", "put", "run", "submit", "lease", "close")) == 4800
    )
    assert shaker.runs["cancelled"] > 10


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_sixteen_threads_do_ten_thousand_things_each(torch):
    faulthandler.cancel_dump_traceback_later()
    faulthandler.dump_traceback_later(3000, exit=False)
    shaker = shaken(torch, 16, 10_000)
    print(dict(shaker.done), dict(shaker.runs), len(shaker.reports))
    assert len(shaker.reports) > 100


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_closing_under_load_many_times():
    faulthandler.cancel_dump_traceback_later()
    total, counts = 0, collections.Counter()
    for seed in range(1000, 1400):
        many, fates = close_under_load(seed)
        total += many
        counts += fates
    print(total, dict(counts))
    assert sum(counts.values()) == total
