"""The store in memory: the very tensors, what is left of them, threads, forks, and what only this store can promise."""

import gc
import json
import math
import os
import pickle
import random
import sys
import threading
import time
import weakref

import linear
import pytest
from promises import at_once, make, numbers

import tenure
from tenure.sharing.store import memory


@pytest.fixture
def store():
    return tenure.Store("memory:")


@pytest.fixture
def hectic():
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_it_is_the_very_tensor(store, framework):
    tensor = make(framework, [1.0])
    store["a/w"] = tensor
    assert store["a/w"] is tensor
    assert store.scope("a")["w"] is tensor
    assert store.get("a/w", like=framework) is tensor
    assert store.lease("a/w").value is tensor


def test_what_is_not_plain_bytes_is_kept_too(store, torch):
    for name, tensor in {
        "sparse": torch.eye(2).to_sparse(),
        "complex": torch.ones(2, dtype=torch.complex128),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "graph": torch.ones(2, requires_grad=True) * 2,
    }.items():
        store[name] = tensor
        assert store[name] is tensor
    assert store.entry("complex").dtype == "complex128"
    with pytest.raises(tenure.Unsupported, match="sparse"):
        store.get("sparse", like="jax")


def test_a_name_is_one_store_for_the_process():
    def inside():
        tenure.Store("memory:cache")["x"] = make("numpy", [1.0])

    inside()
    assert numbers(tenure.Store("memory:cache")["x"]) == [1]
    assert "x" not in tenure.Store("memory:other")
    assert "x" not in tenure.Store("memory:")
    assert "x" not in tenure.Store()
    del tenure.Store("memory:cache")["x"]
    with pytest.raises(tenure.StoreError, match="is not a valid name"):
        tenure.Store("memory:../x")


@pytest.mark.parametrize("url", ["redis:x", "memory", "", "mem:", 3, None, "file", "MEMORY:"])
def test_an_unknown_address_says_which_there_are(url):
    with pytest.raises(
        tenure.StoreError, match='is not a store: the URL begins with one of "memory:…", "file:…", "ray:…"'
    ):
        tenure.Store(url)


def test_frameworks_share_the_bytes(store, torch, jax):
    store["w"] = torch.zeros(16)
    array = store.get("w", like="numpy")
    store["w"][0] = 7
    assert array[0] == 7
    assert store.read("w", like="jax").copied is False
    store["slice"] = torch.arange(6.0)[1:]
    reading = store.read("slice", like="jax")
    assert (reading.copied, reading.why) == (True, "JAX needs bytes at a multiple of 64")


# ------------------------------------------------------------------------------------------------ what remains


def test_nobody_else_has_it_and_it_is_freed(store, framework):
    store["w"] = make(framework, [1.0] * 1024)
    remains = store.delete("w")
    assert [(one.fate, one.nbytes) for one in remains] == [("freed", 4096)]


def test_who_still_has_it_goes_on_with_it_and_is_named(store, framework):
    weights = make(framework, [1.0] * 1024)
    store["w"] = weights
    remains = store.delete("w")
    assert (remains.freed_bytes, remains.held_bytes) == (0, 4096)
    assert "weights" in [holder.name for holder in remains.holders], str(remains)
    assert numbers(weights + weights) == [2.0] * 1024


def test_a_view_holds_the_bytes_after_the_tensor(store, torch):
    store["w"] = torch.zeros(1024)
    part = store["w"][:10]
    remains = store.delete("w")
    assert (remains.freed_bytes, remains.held_bytes) == (0, 4096)
    assert [holder.name for holder in remains.holders] == ["part"], str(remains)


def test_another_frameworks_tensor_holds_the_bytes(store, torch, jax):
    store["w"] = torch.zeros(1024)
    other = store.get("w", like="jax")
    remains = store.delete("w")
    assert remains.held_bytes == 4096
    assert "other" in [holder.name for holder in remains.holders], str(remains)
    assert other.sum() == 0


def test_another_name_of_the_store_holds_it(store, torch):
    store["a"] = torch.zeros(1024)
    store["b"] = store["a"]
    remains = store.delete("a")
    assert remains.held_bytes == 4096
    (holder,) = remains.holders
    assert str(holder).startswith("store memory:['b'] (test_memory.py:")
    assert store.delete("b").freed_bytes == 4096


def test_setting_a_name_anew_lets_go_of_what_it_had(store, torch):
    store["w"] = torch.zeros(1024)
    dead = weakref.ref(store["w"])
    store["w"] = torch.zeros(1)
    assert dead() is None


def test_deleting_costs_no_walk_over_the_heap(store, framework, monkeypatch):
    monkeypatch.setattr(gc, "get_objects", lambda *_: pytest.fail("a walk over the heap"))
    store["w"] = make(framework, [1.0])
    del store["w"]


# ------------------------------------------------------------------------------------------------ lifetimes


def test_no_scope_ends_what_is_stored(store, torch):
    with tenure.scope("outer"):
        with tenure.scope("inner"):
            store["w"] = torch.ones(2)
            mine = torch.ones(2)
        assert tenure.info(mine).state == "disposed"
        assert tenure.info(store["w"]).state == "live"
    assert store["w"].sum() == 2
    with tenure.scope():
        taken = store["w"]
        del store["w"]
    assert taken.sum() == 2  # born outside of that scope: not its own


def test_what_the_user_ends_is_ended(store, torch):
    store["w"] = torch.ones(2)
    tenure.dispose(store["w"])
    with pytest.raises(tenure.TensorReleased, match="dispose"):
        store["w"].sum()
    assert store.entry("w").shape == (2,)
    assert [one.fate for one in store.delete("w")] == ["already"]


def test_the_store_goes_and_lets_go(torch):
    store = tenure.Store()
    store["w"] = torch.ones(2)
    dead = weakref.ref(store["w"])
    store.close()
    del store
    assert dead() is None


def test_closing_one_opening_leaves_the_others(torch):
    one, two = tenure.Store("memory:openings"), tenure.Store("memory:openings")
    one["w"] = torch.ones(2)
    one.close()
    assert two["w"].sum() == 2
    two.clear()


# ------------------------------------------------------------------------------------------------ leases


def test_who_leases_it_himself_is_told_so_at_once(store, framework):
    store["w"] = make(framework, [1.0])
    with (
        store.lease("w"),
        pytest.raises(tenure.StoreError, match="leased: .*test_memory.py:\\d+.*\n  fix: .* release the lease first"),
    ):
        store.delete("w", wait=math.inf)
    store.delete("w", wait=math.inf)


def test_a_lease_in_a_cycle_ends_when_it_is_collected_under_the_lock(store, framework):
    store["w"] = make(framework, [1.0])
    cycle = [store.lease("w")]
    cycle.append(cycle)
    del cycle
    with store._backend._room.changed:  # a collection can begin here: release must not wait for its own thread
        gc.collect()
    assert store.leases("w") == []


def test_a_lease_outlives_the_closing_of_its_store(framework):
    store = tenure.Store("memory:closing")
    store["w"] = make(framework, [1.0])
    lease = store.lease("w")
    store.close()
    other = tenure.Store("memory:closing")
    with pytest.raises(tenure.StoreError, match="in use"):
        other.delete("w")
    lease.release()
    other.delete("w")


def test_a_tensors_end_may_use_the_store(store, np):
    """What a name lets go of is let go of outside of the lock: its end may wait for a thread that needs the store."""

    def end():
        thread = threading.Thread(target=lambda: store.put("last words", np.ones(1)))
        thread.start()
        thread.join(30)
        assert not thread.is_alive()

    for act in (lambda: store.delete("w"), lambda: store.put("w", np.ones(1))):
        store["w"] = np.ones(3)
        weakref.finalize(store["w"], end)
        act()
        assert "last words" in store
        store.clear()


def test_graves_are_few_and_versions_rise_all_the_same(store, np):
    tensor = np.ones(1)
    for _ in range(5):
        last = store.put("first", tensor)
    store.delete("first")
    for number in range(memory._GRAVES + 10):
        store[f"n{number}"] = tensor
        del store[f"n{number}"]
    room = store._backend._room
    assert len(room.graves) == memory._GRAVES
    assert store._backend.grave("first") is None
    assert store.put("first", tensor) > last


def test_a_store_in_memory_is_not_sent_to_another_process(store, tmp_path):
    with pytest.raises(tenure.StoreError, match='in this process, and cannot be sent.*"file:PATH"'):
        pickle.dumps(store)
    import copy

    assert copy.deepcopy({"model": store})["model"] is store
    files = tenure.Store(f"file:{tmp_path / 'store'}")
    files["a/w"] = make("numpy", [1.0])
    again = pickle.loads(pickle.dumps(files.scope("a")))
    assert numbers(again["w"]) == [1]


# ------------------------------------------------------------------------------------------------ forks and threads


@pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning")  # of JAX, which the child does not use
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_its_own(np):
    store = tenure.Store("memory:forked")
    store["w"] = np.ones(2)
    mine = store.lease("w")
    held, go = threading.Event(), threading.Event()

    def hold():
        lease = store.lease("w")
        with store._backend._room.changed:  # while this thread holds the lock, the process forks
            held.set()
            go.wait(60)
        lease.release()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        told = {}
        try:
            told["leases"] = len(store.leases("w"))
            mine.release()
            store["w"] = np.zeros(2)
            store.delete("w")
            tenure.Store("memory:forked")["x"] = np.ones(1)
            told["names"] = list(store)
        except BaseException as error:
            told["error"] = repr(error)
        os.write(writer, json.dumps(told).encode())
        os._exit(0)
    os.close(writer)
    go.set()
    thread.join()
    with os.fdopen(reader) as pipe:
        assert json.load(pipe) == {"leases": 1, "names": ["x"]}
    os.waitpid(child, 0)
    assert list(store) == ["w"]
    assert store["w"].sum() == 2
    mine.release()
    store.clear()


@pytest.mark.parametrize("seed", range(12))
def test_concurrent_histories_have_an_order(store, np, hectic, seed):
    recorders = [linear.Recorder(store, np.array, int, time.perf_counter, f"thread {number}") for number in range(6)]
    at_once(
        6, lambda number: recorders[number].mixed(random.Random(f"{seed} {number}"), ["x", "y"], 150, number * 1000)
    )
    history = [op for recorder in recorders for op in recorder.history]
    assert linear.check(history) == []
    assert len({op.result for op in history if op.kind == "cas"}) > 1


class Forgetful(memory.MemoryStore):
    """A store that compares first and puts then: what the search below must find."""

    def put(self, name, tensor, by, expect):
        if expect is not None and expect != (self.known[name].entry.version if name in self.known else 0):
            raise tenure.StoreError("too late")
        time.sleep(0)
        return super().put(name, tensor, by, None)


def test_a_store_that_forgets_its_lock_is_found_out(store, np, hectic):
    store._backend = Forgetful(store._backend._room)
    for seed in range(20):
        recorders = [linear.Recorder(store, np.array, int, time.perf_counter) for _ in range(4)]
        at_once(4, lambda number: recorders[number].mixed(random.Random(f"{seed} {number}"), ["x"], 100, number * 1000))
        if linear.check([op for recorder in recorders for op in recorder.history]):
            return
        store.clear()
        store = tenure.Store()
        store._backend = Forgetful(store._backend._room)
    pytest.fail("no history without an order was seen")


@pytest.mark.parametrize("calls", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_sixteen_threads_lose_nothing(store, np, calls):
    """Each keeps names of its own, where nobody else writes, and counts in common ones, where everybody does."""
    won = [0] * 16
    for number in range(4):
        store[f"common/{number}"] = np.array(0)

    def work(number):
        rng, mine = random.Random(number), {}
        own = store.scope(f"own/{number}")
        for _ in range(calls):
            turn, name = rng.random(), f"{rng.randrange(8)}"
            if turn < 0.25:
                value = np.array(rng.randrange(10**6))
                version = own.put(name, value)
                assert version > mine.get(name, (None, 0))[1]
                mine[name] = (value, version)
            elif turn < 0.55:
                found = own.get(name)
                assert found is mine.get(name, (None,))[0]
            elif turn < 0.6:
                if name in mine and mine[name][0] is not None:
                    own.delete(name)
                    mine[name] = (None, mine[name][1])
            elif turn < 0.7:
                if mine.get(name, (None,))[0] is not None:
                    with own.lease(name) as found:
                        assert found is mine[name][0]
            elif turn < 0.72:
                with store.lease("common/0"), pytest.raises(tenure.StoreError):
                    store.delete("common/0")
            elif turn < 0.73:
                assert sorted(own) == sorted(name for name, (value, _) in mine.items() if value is not None)
            else:
                common = f"common/{rng.randrange(4)}"
                reading = store.read(common)
                try:
                    store.put(common, np.array(int(reading.value) + 1), expect=reading.version)
                    won[number] += 1
                except tenure.StoreError:
                    pass
        for name, (value, _) in mine.items():
            assert own.get(name) is value

    at_once(16, work)
    assert sum(int(store[f"common/{number}"]) for number in range(4)) == sum(won) > 0
    assert store._backend._room.leases == {}


def test_reading_is_as_quick_as_promised(store, np):
    store["encoder/w"] = np.ones(1)
    lock, plain = threading.Lock(), {"encoder/w": 1}

    def under_lock():
        for _ in range(20_000):
            with lock:
                plain["encoder/w"]

    def ours():
        for _ in range(20_000):
            store["encoder/w"]

    def seconds(body):
        start = time.process_time()
        body()
        return time.process_time() - start

    assert min(seconds(ours) for _ in range(5)) <= 3 * min(seconds(under_lock) for _ in range(5))


def test_an_empty_store_may_be_that_of_another_process():
    with pytest.raises(tenure.NameMissing, match=r"a memory: store exists in one process; .* Store\('file:PATH'\)"):
        tenure.Store("memory:")["w"]
    store = tenure.Store("memory:")
    store["v"] = make("numpy", [1.0])
    with pytest.raises(tenure.NameMissing) as caught:
        store["w"]
    assert "exists in one process" not in str(caught.value)


def test_a_path_may_be_that_of_a_store():
    with pytest.raises(tenure.StoreError, match="did you mean 'file:weights'"):
        tenure.Store("weights")
