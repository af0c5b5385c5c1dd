"""The ten things that users of scoped tensors ask for and no library had, each as a test."""

import asyncio
import concurrent.futures
import dataclasses
import gc
import threading
import weakref

import pytest

import tenure

torch = pytest.importorskip("torch")
attrs = pytest.importorskip("attrs")


def state(tensor):
    return tenure.info(tensor).state


def line_of(mark):
    with open(__file__) as file:
        (number,) = [n for n, text in enumerate(file, 1) if text.rstrip().endswith(f"# here: {mark}")]
    return number


def test_1_creation_and_disposal_site_in_the_use_after_dispose_error():
    with tenure.scope():
        x = torch.ones(3)  # here: born
        tenure.dispose(x)  # here: ended
    with pytest.raises(tenure.TensorReleased) as caught:
        x + 1  # here: used
    text = str(caught.value)
    for mark in ("born", "ended", "used"):
        assert f"test_ten_wants.py:{line_of(mark)}" in text
    assert caught.value.tensor.born.line == line_of("born")
    assert caught.value.tensor.ended.line == line_of("ended")
    assert caught.value.used.line == line_of("used")


def test_2_what_remains_and_who_holds_it():
    model_cache = {"last": torch.ones(256)}
    view = model_cache["last"][10:]
    told = tenure.dispose(view)
    assert told.held_bytes == 1024
    assert any("model_cache" in str(holder) for holder in told.holders), [str(h) for h in told.holders]
    assert "  retained by " in str(told)
    assert model_cache["last"].sum().item() == 256.0


def test_3_async_scopes_belong_to_their_task():
    async def work(name, born, go):
        with tenure.scope(name):
            born.append(torch.ones(2))
            await go()
            born.append(torch.ones(2))
            assert [tenure.info(tensor).scope for tensor in born] == [name, name]
            await go()
        assert [state(tensor) for tensor in born] == ["disposed", "disposed"]

    async def main():
        a, b = [], []
        await asyncio.gather(work("a", a, lambda: asyncio.sleep(0)), work("b", b, lambda: asyncio.sleep(0)))
        return torch.ones(1)

    assert state(asyncio.run(main())) == "live"


def test_4_scopes_follow_into_threads_when_carried():
    with concurrent.futures.ThreadPoolExecutor(1) as pool, tenure.scope("here"):
        carried = pool.submit(tenure.carry(lambda: torch.ones(2))).result()
        alone = pool.submit(lambda: torch.ones(2)).result()
        assert (tenure.info(carried).scope, tenure.info(alone).scope) == ("here", None)
    assert (state(carried), state(alone)) == ("disposed", "live")


def test_4_a_thread_started_inside_a_scope_is_in_none():
    found = []
    with tenure.scope():
        thread = threading.Thread(target=lambda: found.append(torch.ones(2)))
        thread.start()
        thread.join()
    assert state(found[0]) == "live"


def test_5_a_scope_does_not_raise_the_peak():
    def peak():
        most = 0
        x = torch.ones(100)
        for _ in range(20):
            x = x * 2 + 1
            most = max(most, tenure.memory().framework("torch").nbytes)
        return most

    without = peak()
    with tenure.scope() as s:
        inside = peak()
        assert s.tensors() == []
    assert inside == without


def test_6_free_now_is_safe_with_views_exports_and_autograd():
    base = torch.arange(4.0)
    view, array, alias = base[1:], base.numpy(), torch.from_dlpack(base)

    def gradient(end):
        x = torch.arange(3.0, requires_grad=True)
        y = x.exp()
        z = (y * y).sum()
        end(y)
        z.backward()
        return x.grad.tolist()

    assert tenure.dispose(base).freed_bytes == 0
    assert view.tolist() == [1.0, 2.0, 3.0]
    assert array.tolist() == alias.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert gradient(tenure.dispose) == gradient(lambda y: None)


def test_7_a_loop_carried_name_is_handled():
    with tenure.scope() as s:
        x = torch.zeros(2)
        for _ in range(10):
            x = x + 1
        assert len(s.tensors()) == 1
        s.keep(x)
    assert x.tolist() == [10.0, 10.0]


def test_7_a_loop_carried_name_across_scopes():
    state_of_loop = torch.zeros(2)
    for _ in range(3):
        with tenure.scope() as s:
            state_of_loop = s.keep(state_of_loop + 1)
    assert state_of_loop.tolist() == [3.0, 3.0]


def test_8_a_with_block_that_gives_memory_back_torch():
    gc.collect()
    before = tenure.memory().framework("torch")
    with tenure.scope() as s:
        kept = [torch.ones(1000) for _ in range(5)]
    assert s.remains.freed_bytes == 20_000
    assert tenure.memory().framework("torch") == before
    assert len(kept) == 5


def test_8_a_with_block_that_gives_memory_back_jax(jax):
    gc.collect()
    before = tenure.memory().framework("jax")
    with tenure.scope() as s:
        kept = jax.numpy.ones(1000) + 1
    assert s.remains.freed_bytes == 4000
    assert tenure.memory().framework("jax") == before
    assert kept.is_deleted()


def test_8_a_with_block_that_gives_memory_back_tensorflow(tf):
    with tenure.scope() as s:
        kept = tenure.own(tf.ones(1000) + 1)
    assert s.remains.freed_bytes == 4000
    assert "<released " in repr(kept)


def test_9_release_that_did_not_happen_is_said_alias():
    tensor = torch.ones(100)
    alias = tensor.view(10, 10)
    told = tenure.dispose(tensor)
    assert "retained" in str(told).splitlines()[1]
    assert (told.freed_bytes, told.held_bytes) == (0, 400)
    assert alias.sum().item() == 100.0


def test_9_release_that_did_not_happen_is_said_host_view(jax, np):
    array = jax.numpy.ones(100) + 1
    view = np.asarray(array)
    told = tenure.dispose(array)
    assert (told.freed_bytes, told.held_bytes) == (0, 400)
    assert view[0] == 2.0


def test_9_release_that_did_not_happen_is_said_tensorflow(tf):
    tensor = tf.ones(100)
    told = tenure.dispose(tensor)
    assert (told.freed_bytes, told.held_bytes) == (0, 400)
    assert "delete the last reference" in told.cannot[0].reason


def test_10_the_error_teaches_the_fix():
    with tenure.scope("step"):
        loss = torch.ones(())
    with pytest.raises(tenure.TensorReleased, match=r"fix: +return it from the scope, call `tenure.keep\(x\)` before"):
        loss.item()
    x = torch.ones(1)
    tenure.dispose(x)
    with pytest.raises(tenure.TensorReleased, match=r"fix: +call `tenure.dispose\(x\)` after the last use"):
        x.item()


def test_10_a_packed_sequence_escapes_whole():
    packed = tenure.scope(lambda: torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]))()
    padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed)
    assert padded.sum().item() == 5.0
    assert lengths.tolist() == [3, 2]


def test_10_batches_of_a_loader_live_as_long_as_they_are_used():
    data = torch.utils.data.TensorDataset(torch.arange(6.0))
    seen = []
    with tenure.scope():
        for (batch,) in torch.utils.data.DataLoader(data, batch_size=2):
            seen.append((batch, batch.tolist()))
    assert [values for _, values in seen] == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert {state(batch) for batch, _ in seen} == {"disposed"}
    assert data[5][0].item() == 5.0


def test_10_a_loader_made_outside_serves_inside():
    loader = iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(6.0)), batch_size=2))
    with tenure.scope():
        first = next(loader)[0]
    second = next(loader)[0]
    assert (state(first), second.tolist()) == ("disposed", [2.0, 3.0])


@dataclasses.dataclass
class Result:
    loss: object
    parts: dict


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    loss: object


@attrs.define
class Attrs:
    loss: object


@attrs.frozen(slots=False)
class FrozenAttrs:
    loss: object


class Plain:
    def __init__(self, loss):
        self.loss = loss


class Inherits(list):
    """A container with both items and attributes."""


def _inherits(tensor):
    made = Inherits([1])
    made.loss = tensor
    return made


@pytest.mark.parametrize("make", [lambda t: Result(t, {}), Slotted, Attrs, FrozenAttrs, Plain, _inherits])
def test_10_results_in_classes_of_the_user_escape(make):
    found = tenure.scope(lambda: make(torch.ones(3) + 1))()
    assert found.loss.tolist() == [2.0, 2.0, 2.0]
    told = tenure.dispose(found)
    assert len(told) == 1
    assert state(found.loss) == "disposed"


@pytest.mark.parametrize("kind", [set, frozenset, tuple, list])
def test_10_tensors_in_any_container_escape(kind):
    found = tenure.scope(lambda: kind([torch.ones(2), torch.ones(2)]))()
    assert [tensor.tolist() for tensor in found] == [[1.0, 1.0]] * 2


def test_10_tensors_as_keys_escape():
    found = tenure.scope(lambda: {torch.ones(2): "key"})()
    assert [tensor.tolist() for tensor in found] == [[1.0, 1.0]]


def test_10_a_returned_closure_partial_or_generator_carries_its_tensors_out():
    import functools

    @tenure.scope
    def closure():
        x = torch.ones(2)
        return lambda: x.sum().item()

    @tenure.scope
    def partial():
        return functools.partial(torch.add, torch.ones(2))

    @tenure.scope
    def generator():
        x = torch.ones(2)
        return (value.item() for value in [x.sum()])

    assert closure()() == 2.0
    assert partial()(1).tolist() == [2.0, 2.0]
    assert list(generator()) == [2.0]


def test_10_a_returned_module_works():
    @tenure.scope
    def make():
        model = torch.nn.Linear(2, 2)
        model.plain_attribute = torch.ones(2)
        model.register_buffer("scale", torch.full((2,), 3.0))
        return model

    model = make()
    assert model.plain_attribute.tolist() == [1.0, 1.0]
    assert model.scale.tolist() == [3.0, 3.0]
    assert model(torch.ones(1, 2)).shape == (1, 2)


def test_10_a_returned_loss_can_be_differentiated():
    def loss(weight):
        hidden = (weight * 2).exp()
        return (hidden * hidden).sum()

    def gradient(function):
        weight = torch.linspace(0, 1, 3).requires_grad_()
        function(weight).backward()
        return weight.grad.tolist()

    assert gradient(tenure.scope(loss)) == gradient(loss)


def test_10_a_jax_pytree_escapes(jax):
    class Node:
        def __init__(self, value):
            self.value = value

    found = tenure.scope(lambda: {"node": Node(jax.numpy.ones(3) + 1), "aux": (1, "x")})()
    assert found["node"].value.tolist() == [2.0, 2.0, 2.0]


def test_10_a_ragged_tensor_is_its_parts(tf):
    ragged = tenure.scope(lambda: tf.ragged.constant([[1.0], [2.0, 3.0]]))()
    assert ragged.to_list() == [[1.0], [2.0, 3.0]]


def test_10_an_iterator_abandoned_in_the_middle_closes_its_scope():
    from tenure.lifetime import regions

    @tenure.scope
    def numbers():
        for n in range(10):
            inner = torch.ones(2)
            refs.append(weakref.ref(inner))
            yield torch.full((1,), float(n))

    refs = []
    iterator = numbers()
    assert next(iterator).item() == 0.0
    del iterator
    gc.collect()
    assert regions.opened() == []
    assert refs[0]() is None
