"""`remains` and `holders` of a tensor that was released before: what still keeps its bytes, and nothing else."""

import gc
import weakref

import pytest

import tenure


def paths(x):
    return [holder.name for holder in tenure.holders(x)]


def test_a_view_that_keeps_the_bytes_of_a_released_tensor_is_found_later():
    torch = pytest.importorskip("torch")
    samples = []
    with tenure.scope("step"):
        hidden = torch.ones(1024, 16)
        samples.append(tenure.keep(hidden[:2]))
    told = tenure.remains(hidden)
    assert [one.fate for one in told] == ["already"]
    assert (told.freed_bytes, told.held_bytes) == (0, 65536)
    assert "64.0 KiB still retained" in str(told)
    assert "by exit of scope 'step' at test_asked_later.py:" in str(told)
    assert paths(hidden) == [holder.name for holder in told.holders] == ["samples[0]"]
    samples.clear()
    assert (tenure.remains(hidden).held_bytes, tenure.holders(hidden)) == (0, [])
    assert "retained" not in str(tenure.remains(hidden)).partition("\n")[2]


def test_the_autograd_graph_that_keeps_the_bytes_of_a_disposed_tensor_is_found_later():
    torch = pytest.importorskip("torch")
    weight = torch.ones(8, requires_grad=True)
    data = torch.full((8,), 2.0)
    loss = (weight * data).sum()
    tenure.dispose(data)
    assert paths(data)[0].startswith("loss → autograd")
    loss.backward()
    assert (tenure.remains(data).held_bytes, tenure.holders(data)) == (0, [])
    assert weight.grad.tolist() == [2.0] * 8


def test_a_second_dispose_frees_nothing_and_says_what_is_left():
    torch = pytest.importorskip("torch")
    base = torch.ones(256)
    view = base[:4]
    tenure.dispose(base)
    again = tenure.dispose(base)
    assert [one.fate for one in again] == ["already"]
    assert (again.freed_bytes, again.held_bytes, view[0].item()) == (0, 1024, 1.0)


def test_several_released_handles_of_one_buffer_count_its_bytes_once():
    torch = pytest.importorskip("torch")
    base = torch.ones(256)
    half, view = base[:128], base[:4]
    tenure.dispose([base, half])
    told = tenure.remains([base, half])
    assert ([one.nbytes for one in told], told.held_bytes) == ([1024, 0], 1024)
    assert paths([base, half]) == ["view"]
    assert view[0].item() == 1.0


def test_to_remember_the_memory_lengthens_no_life():
    torch = pytest.importorskip("torch")
    base = torch.ones(256)
    view = base[:4]
    tenure.dispose(base)
    assert tenure.remains(base).held_bytes == 1024
    gone, before = weakref.ref(view), tenure.memory().framework("torch").nbytes
    del view
    assert gone() is None
    assert tenure.memory().framework("torch").nbytes == before - 1024
    assert tenure.remains(base).held_bytes == 0


def test_remains_of_a_scope_are_read_again_each_time():
    torch = pytest.importorskip("torch")
    samples = []
    with tenure.scope() as scope:
        hidden = torch.ones(256)
        samples.append(tenure.keep(hidden[:2]))
    first = scope.remains
    assert (first.freed_bytes, first.held_bytes) == (0, 1024)
    samples.clear()
    assert (scope.remains.freed_bytes, scope.remains.held_bytes) == (1024, 0)
    assert (first.freed_bytes, first.held_bytes) == (0, 1024)


def test_an_array_that_reads_a_released_jax_array_is_found_later():
    jax = pytest.importorskip("jax")
    numpy = pytest.importorskip("numpy")
    with tenure.scope():
        x = jax.numpy.arange(1000.0) + 1
        mine = [numpy.asarray(x)]
    assert paths(x) == ["mine[0]"]
    assert tenure.remains(x).held_bytes == mine[0].nbytes
    mine.clear()
    gc.collect()
    assert (tenure.remains(x).held_bytes, tenure.holders(x)) == (0, [])


def test_what_reads_the_same_address_later_is_not_said_to_keep_a_released_jax_array():
    jax = pytest.importorskip("jax")
    released, addresses = [], set()
    for _ in range(100):
        with tenure.scope():
            x = jax.numpy.arange(100.0) + 1
            addresses.add(x.unsafe_buffer_pointer())
        released.append(x)
    later = [jax.numpy.arange(100.0) + one for one in range(200)]
    if not addresses & {one.unsafe_buffer_pointer() for one in later}:
        pytest.skip("the allocator used no address again")
    assert tenure.remains(released).held_bytes == 0
    assert tenure.holders(released) == []


def test_a_traced_function_that_keeps_a_disposed_variable_is_seen_later():
    tf = pytest.importorskip("tensorflow")
    variable = tf.Variable(tf.ones(100))
    told = tenure.dispose(variable)
    later = tenure.remains(variable)
    assert (told.freed_bytes, later.held_bytes) == (400, 0)
    other = tf.Variable(tf.ones(100))
    handle = [other.handle]
    told = tenure.dispose(other)
    assert (told.held_bytes, tenure.remains(other).held_bytes) == (400, 400)
    handle.clear()
    assert tenure.remains(other).held_bytes == 0


def test_a_released_tensor_keeps_its_own_size_apart_from_its_buffers():
    torch = pytest.importorskip("torch")
    view = torch.ones(1024)[:4]
    other = view.detach()
    text = str(tenure.dispose([view, other]))
    assert text.count("torch tensor float32[4] on cpu") == 1
    assert "4.0 KiB freed: buffer of torch tensor float32[4] on cpu (16 bytes of it)" in text
