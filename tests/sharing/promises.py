"""What every store promises, one body for each: `promise(world, framework)`.

`world.open()` opens the store once more, `world.kind` says what it is. `test_promises.py` tries them on the stores in
memory and in files, `cases_ray.py` on Ray's.
"""

import gc
import importlib.util
import pickle
import threading
import time
import warnings

import pytest

import tenure
from tenure.frameworks import exchange
from tenure.sharing.store import CopyWarning

PROMISES = {}
INSTALLED = [name for name in exchange.NAMES if importlib.util.find_spec(name)]


def promise(body):
    PROMISES[body.__name__] = body
    return body


def make(framework, numbers, dtype="float32"):
    """A tensor of these numbers."""
    if framework == "torch":
        import torch

        return torch.tensor(numbers, dtype=getattr(torch, dtype))
    if framework == "jax":
        import jax

        return jax.numpy.array(numbers, dtype)
    if framework == "tensorflow":
        import tensorflow as tf

        return tf.constant(numbers, dtype)
    import numpy

    return numpy.array(numbers, dtype)


def numbers(tensor):
    """What is in it, as lists."""
    return exchange.into(tensor, "numpy").tensor.tolist()


def framework_of(tensor):
    return tenure.info(tensor).framework


def line_before():
    """The line before the caller's."""
    import sys

    return f"promises.py:{sys._getframe(1).f_lineno - 1}"


def at_once(count, body):
    """Run `body(number)` in so many threads, begun together; the first error is raised."""
    errors, start = [], threading.Barrier(count)

    def run(number):
        try:
            start.wait(30)
            body(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


@promise
def what_is_put_is_read(world, framework):
    store = world.open()
    store["encoder/w"] = make(framework, [[1.5, -2.0], [3.25, 0.0]])
    found = store["encoder/w"]
    assert framework_of(found) == framework
    assert numbers(found) == [[1.5, -2.0], [3.25, 0.0]]
    assert numbers(world.open()["encoder/w"]) == [[1.5, -2.0], [3.25, 0.0]]


@promise
def every_dtype_and_shape_comes_back_bit_for_bit(world, framework):
    store = world.open()
    for dtype, (_, size, _) in exchange.DTYPES.items():
        for shape in ((3, 2), (), (0, 4)):
            count = size
            for one in shape:
                count *= one
            raw = bytes(number % 2 if dtype == "BOOL" else number * 37 % 256 for number in range(count))
            try:
                tensor = exchange.made(framework, raw, dtype, shape).tensor
            except tenure.Unsupported:
                continue  # TensorFlow has not all of them
            store["x"] = tensor
            found = exchange.host(store["x"])
            assert (found.framework, found.dtype, found.shape) == (framework, dtype, shape)
            assert bytes(found.data) == raw
            entry = store.entry("x")
            assert (entry.framework, entry.dtype, entry.shape, entry.nbytes) == (framework, dtype, shape, count)


@promise
def a_part_of_a_tensor_is_put_as_it_is_seen(world, framework):
    store = world.open()
    whole = make(framework, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    store["column"] = whole[:, 1]
    assert numbers(store["column"]) == [2.0, 5.0]


@promise
def another_framework_reads_it(world, framework):
    store = world.open()
    store["w"] = make(framework, [1.0, 2.0, 3.0])
    for like in INSTALLED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CopyWarning)
            found = store.get("w", like=like)
        assert (framework_of(found), numbers(found)) == (like, [1, 2, 3])
        reading = store.read("w", like=like)
        assert reading.version == 1
        assert reading.copied == bool(reading.why)
        if reading.copied:
            with pytest.warns(CopyWarning, match="'w' was copied"):
                store.get("w", like=like)
    with pytest.raises(tenure.Unsupported, match="not a framework"):
        store.get("w", like="mxnet")


@promise
def it_is_a_mapping(world, framework):
    store = world.open()
    assert (len(store), list(store), "b" in store) == (0, [], False)
    store.update({"b": make(framework, [2.0]), "a/x": make(framework, [1.0]), "ä": make(framework, [3.0])})
    assert list(store) == ["a/x", "b", "ä"] == list(world.open())
    assert (len(store), "b" in store, "x" in store, 3 in store, "../b" in store) == (3, True, False, False, False)
    assert [numbers(value) for value in store.values()] == [[1], [2], [3]]
    assert numbers(store.pop("b")) == [2]
    assert store.pop("b", None) is None
    assert numbers(store.setdefault("b", make(framework, [5.0]))) == [5]
    assert numbers(store.setdefault("b", make(framework, [6.0]))) == [5]
    store.clear()
    assert list(world.open()) == []
    assert store.url in repr(store)


@promise
def letters_that_look_the_same_are_the_same(world, framework):
    store = world.open()
    store["caf\u00e9"] = make(framework, [1.0])
    assert numbers(store["cafe\u0301"]) == [1]
    assert len(store) == 1


@promise
def a_scope_is_the_names_below_a_prefix(world, framework):
    store = world.open()
    encoder = store.scope("encoder")
    encoder["w"] = make(framework, [1.0])
    encoder.scope("attention/")["q"] = make(framework, [2.0])
    store["encoderx"] = make(framework, [3.0])
    assert list(encoder) == ["attention/q", "w"]
    assert numbers(store["encoder/attention/q"]) == numbers(encoder["attention/q"]) == [2]
    assert (len(encoder), "w" in encoder, "encoderx" in encoder) == (2, True, False)
    encoder.clear()
    assert list(store) == ["encoderx"]
    with pytest.raises(tenure.NameMissing, match="'encoder/w'"):
        encoder["w"]
    with pytest.raises(tenure.StoreError, match=r"'\.\.' is not allowed"):
        encoder["../encoderx"]


@promise
def a_missing_name_says_what_there_is_and_who_deleted_it(world, framework):
    store = world.open()
    with pytest.raises(tenure.NameMissing, match="the store is empty"):
        store["w"]
    store["encoder/weight"] = make(framework, [1.0])
    with pytest.raises(tenure.NameMissing, match="nearest: 'encoder/weight'"):
        store["encoder/wieght"]
    with pytest.raises(KeyError, match="nearest: 'encoder/weight'"):
        store["weight"]
    store.delete("encoder/weight")
    line = line_before()
    for read in (store.__getitem__, store.entry, store.lease, store.delete, world.open().__getitem__):
        with pytest.raises(tenure.NameMissing, match=f"deleted: .*{line}"):
            read("encoder/weight")
    assert store.get("encoder/weight") is None
    assert store.get("encoder/weight", 7, like="numpy") == 7


@promise
def versions_rise_and_never_come_again(world, framework):
    store = world.open()
    tensor = make(framework, [1.0])
    assert store.version("w") == 0
    seen = [0]
    for _ in range(3):
        seen += [store.put("w", tensor), store.put("w", tensor)]
        assert store.version("w") == store.read("w").version == store.entry("w").version == seen[-1]
        del store["w"]
        assert store.version("w") == 0
    assert seen == sorted(set(seen))


@promise
def who_expects_another_version_changes_nothing(world, framework):
    store = world.open()
    first = store.put("w", make(framework, [1.0]), expect=0)
    line = line_before()
    with pytest.raises(
        tenure.NameTaken, match=f"was expected not to exist, but it is at version {first}, put by .*{line}"
    ):
        store.put("w", make(framework, [2.0]), expect=0)
    second = store.put("w", make(framework, [3.0]), expect=first)
    with pytest.raises(
        tenure.StoreError, match=f"was expected to be at version {first}, but it is at version {second}"
    ):
        world.open().put("w", make(framework, [4.0]), expect=first)
    assert numbers(store["w"]) == [3]
    del store["w"]
    with pytest.raises(tenure.StoreError, match=f"was expected to be at version {second}, but it does not exist"):
        store.put("w", make(framework, [5.0]), expect=second)
    assert "w" not in store
    assert store.put("w", make(framework, [6.0]), expect=0) > second


@promise
def of_writers_that_compare_none_is_lost(world, framework):
    store = world.open()
    store["count"] = make(framework, [0.0])

    def add(number):
        for _ in range(5):
            while True:
                reading = store.read("count")
                try:
                    store.put("count", make(framework, [numbers(reading.value)[0] + 1]), expect=reading.version)
                    break
                except tenure.StoreError:
                    continue

    at_once(4, add)
    assert numbers(store["count"]) == [20]


@promise
def of_many_that_set_a_default_one_does(world, framework):
    store = world.open()
    found = [None] * 6

    def set_default(number):
        found[number] = numbers(store.setdefault("w", make(framework, [float(number)])))

    at_once(6, set_default)
    assert all(one == found[0] for one in found)
    assert store.version("w") == 1


@promise
def a_leased_name_stays(world, framework):
    store = world.open()
    store["w"] = make(framework, [1.0])
    with store.lease("w") as value:
        line = line_before()
        assert numbers(value) == [1]
        (holder,) = store.leases("w")
        with pytest.raises(tenure.StoreError, match=r"'w' is in use and was not deleted\n  leased: .*promises.py"):
            store.delete("w")
        with pytest.raises(tenure.StoreError, match="in use"):
            del world.open()["w"]
        start = time.monotonic()
        with pytest.raises(tenure.StoreError, match="in use"):
            store.delete("w", wait=0.2)  # the lease is this thread's own: whoever waits here, does not wait for ever
        assert time.monotonic() - start < 30
        assert holder.site.short == line
        store["w"] = make(framework, [2.0])  # it may be set; who leases it has what he has
        assert numbers(value) == [1]
    assert store.leases("w") == []
    store.delete("w")
    assert "w" not in store


@promise
def deleting_waits_for_the_last_lease(world, framework):
    store = world.open()
    store["w"] = make(framework, [1.0])
    leased, done = threading.Event(), []

    def use(_):
        with store.lease("w"):
            leased.set()
            time.sleep(0.2)
            done.append("used")

    user = threading.Thread(target=use, args=(0,))
    user.start()
    assert leased.wait(30)
    store.delete("w", wait=60)
    assert done == ["used"]
    user.join()


@promise
def a_lease_ends_once_however_it_ends(world, framework):
    store = world.open()
    store["w"] = make(framework, [1.0])
    lease = store.lease("w")
    other = store.lease("w")
    assert (lease.active, lease.name, numbers(lease.value), len(store.leases("w"))) == (True, "w", [1], 2)
    lease.release()
    lease.release()
    assert (lease.active, len(store.leases("w"))) == (False, 1)
    del other  # forgotten: as good as released
    gc.collect()
    assert store.leases("w") == []
    with pytest.raises(RuntimeError, match="mine"), store.lease("w"):
        raise RuntimeError("mine")
    assert store.leases("w") == []


@promise
def what_was_read_stays_good(world, framework):
    store = world.open()
    store["w"] = make(framework, [1.0, 2.0])
    before = store["w"]
    store["w"] = make(framework, [3.0])
    between = store["w"]
    remains = store.delete("w")
    assert isinstance(remains, tenure.Remains)
    store["w"] = make(framework, [4.0])
    assert [numbers(one) for one in (before, between, store["w"])] == [[1, 2], [3], [4]]
    store.close()
    assert numbers(before) == [1, 2]


@promise
def what_is_stored_outlives_scopes(world, framework):
    store = world.open()
    with tenure.scope("step"):
        inside = make(framework, [1.0])
        store["kept"] = inside
        other = make(framework, [2.0])
    assert numbers(store["kept"]) == [1]
    with tenure.scope("reading"):
        assert numbers(store["kept"]) == [1]
    assert numbers(store["kept"]) == [1]


@promise
def bad_names_are_refused(world, framework):
    store = world.open()
    tensor = make(framework, [1.0])
    bad = {
        "..": "is not allowed",
        "a/../b": "is not allowed",
        "./a": "is not allowed",
        "/a": "a part is empty",
        "a/": "a part is empty",
        "a//b": "a part is empty",
        "": "a part is empty",
        "a\0b": "character",
        "a\nb": "character",
        "a\u202eb": "character",
        "n" * 10_240: "at most 512 bytes",
        "ü" * 300: "at most 512 bytes",
        "a\ud800": "must be valid Unicode",
        7: "a name is a str, not int",
        b"w": "a name is a str, not bytes",
        None: "a name is a str",
    }
    for name, why in bad.items():
        for act in (
            lambda: store.put(name, tensor), lambda: store[name], lambda: store.delete(name), lambda: store.lease(name),
            lambda: store.get(name), lambda: store.entry(name), lambda: store.version(name),
        ):  # fmt: skip
            with pytest.raises(tenure.StoreError, match=why):
                act()
        assert name not in store
    assert list(store) == []
    for name in (
        "日本語/重み",
        "with space",
        "..a",
        "a..b",
        "~",
        "CON",
        "w" * 512,
        "%2e%2e",
        "a\\b",
        "-rf",
        "a'b\";--",
    ):
        store[name] = tensor
        assert numbers(store[name]) == [1]
        assert numbers(world.open()[name]) == [1]
    assert len(store) == 11


@promise
def only_live_tensors_are_taken(world, framework):
    store = world.open()
    store["w"] = make(framework, [1.0])
    for thing in ([1.0], 1.0, "text", pickle.dumps([1]), None, {"a": 1}, object(), type):
        with pytest.raises(tenure.Unsupported, match=f"only tensors can be shared .*got {type(thing).__name__}"):
            store["w"] = thing
    ended = make(framework, [2.0])
    if framework in ("torch", "jax"):
        tenure.dispose(ended)
        with pytest.raises(tenure.TensorReleased, match="after it was released"):
            store["w"] = ended
    if framework == "torch":
        with pytest.raises(tenure.Unsupported, match="symbolic"):
            store["w"] = importlib.import_module("torch").ones(2, device="meta")
    if framework == "jax":

        def traced(x):
            with pytest.raises(tenure.Unsupported, match="symbolic"):
                store["w"] = x
            return x

        importlib.import_module("jax").jit(traced)(1.0)
    assert numbers(store["w"]) == [1]
    assert store.version("w") == 1


@promise
def a_closed_store_says_so(world, framework):
    store = world.open()
    store["w"] = make(framework, [1.0])
    below = store.scope("a")
    with store:
        pass
    for act in (
        lambda: store["w"],
        lambda: store.put("w", make(framework, [1.0])),
        lambda: list(store),
        lambda: below["w"],
    ):
        with pytest.raises(tenure.StoreError, match="closed"):
            act()
    store.close()
    if world.kind != "memory" or world.url != "memory:":
        assert numbers(world.open()["w"]) == [1]


@promise
def it_says_who_put_what(world, framework):
    store = world.open()
    store["w"] = make(framework, [[1.0, 2.0]])
    line = line_before()
    entry = store.entry("w")
    assert entry.put.site.short == line
    assert threading.current_thread().name in str(entry.put)
    assert (entry.name, entry.shape, entry.dtype, entry.nbytes) == ("w", (1, 2), "F32", 8)
