"""Bytes of tensors and tensors of bytes: bit for bit, without a copy where possible, and it says where not."""

import gc
import importlib.util
import mmap
import weakref

import pytest

import tenure
from tenure.frameworks import exchange

INSTALLED = [name for name in exchange.NAMES if importlib.util.find_spec(name)]
SHAPES = ((4, 3), (), (0, 2), (5,))


class Owner:
    """Something that can be seen to die."""


def place(tensor):
    """Where a tensor's bytes lie."""
    return (
        exchange._exchanger("numpy").over(exchange.host(tensor).data, "U8", (-1,), None, share=True).tensor.ctypes.data
    )


def raw(np, dtype, shape):
    count = exchange.DTYPES[dtype][1] * int(np.prod(shape, dtype=int))
    return np.random.default_rng(count).integers(0, 2 if dtype == "BOOL" else 256, count, dtype=np.uint8).tobytes()


def mapped(data, offset=0):
    """The bytes in a map of their own, which can be written to."""
    area = mmap.mmap(-1, len(data) + offset + 1)
    area[offset : offset + len(data)] = data
    return memoryview(area)[offset : offset + len(data)]


def lacks(framework, dtype):
    return framework == "tensorflow" and dtype == "F8_E8M0"


@pytest.mark.parametrize("dtype", exchange.DTYPES)
def test_bytes_become_a_tensor_and_its_bytes_again(framework, dtype, np):
    if lacks(framework, dtype):
        with pytest.raises(tenure.Unsupported, match="TensorFlow has no float8_e8m0fnu"):
            exchange.made(framework, bytes(4), dtype, (4,))
        return
    for shape in SHAPES:
        data = raw(np, dtype, shape)
        owner = Owner()
        dead = weakref.ref(owner)
        tensor, copied, why = exchange.made(framework, mapped(data), dtype, shape, owner)
        assert copied == bool(why) == (framework == "tensorflow" and "F8" in dtype and bool(data))
        found = exchange.host(tensor)
        assert (bytes(found.data), found.dtype, found.shape, found.framework) == (data, dtype, shape, framework)
        assert found.data.readonly
        assert found.copied == (framework == "tensorflow" and shape == ())
        del owner
        assert (dead() is None) == (copied or not data)
        del tensor, found
        if dead() is not None:
            gc.collect()  # some versions of JAX leave a cycle
        assert dead() is None


@pytest.mark.parametrize("dtype", exchange.DTYPES)
def test_frameworks_share_bytes(framework, dtype, np):
    if lacks(framework, dtype):
        return
    for shape in SHAPES:
        data = raw(np, dtype, shape)
        tensor = exchange.made(framework, mapped(data), dtype, shape).tensor
        for like in INSTALLED:
            if lacks(like, dtype):
                continue
            other, copied, why = exchange.into(tensor, like)
            found = exchange.host(other)
            assert (bytes(found.data), found.dtype, found.shape, found.framework) == (data, dtype, shape, like)
            assert copied == bool(why)
            if data and shape:
                assert (place(other) == place(tensor)) == (not copied)
                assert not copied or like == "tensorflow"
        del tensor
        assert bytes(exchange.host(other).data) == data  # the other keeps the bytes


@pytest.mark.parametrize("offset", [1, 4, 8, 32])
def test_bytes_that_are_not_aligned_are_copied_where_the_framework_needs_it(framework, offset, np):
    data = raw(np, "F32", (64,))
    tensor, copied, why = exchange.made(framework, mapped(data, offset), "F32", (64,))
    assert bytes(exchange.host(tensor).data) == data
    assert copied == (framework in ("jax", "tensorflow") or offset == 1)
    assert bool(why) == copied
    exchange.host(tensor + tensor)  # TensorFlow would abort here


def test_what_is_read_only_is_never_written_to(framework, np, tmp_path):
    path = tmp_path / "bytes"
    data = raw(np, "F32", (1024,))
    path.write_bytes(data)
    with path.open("rb") as file:
        area = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    tensor, copied, why = exchange.made(framework, area, "F32", (1024,))
    if framework == "torch":
        assert copied
        assert "read-only" in why
        tensor += 1  # would end the process
        shared, copied, _ = exchange.made(framework, area, "F32", (1024,), share=True)
        assert not copied
        assert place(shared) != place(tensor)
    elif framework == "numpy":
        with pytest.raises(ValueError, match="read-only"):
            tensor += 1
    elif framework == "tensorflow":
        import tensorflow as tf

        variable = tf.Variable(tensor)
        variable.assign_add(tf.ones_like(tensor))
    else:
        import jax

        jax.jit(lambda x: x + 1, donate_argnums=0)(tensor).block_until_ready()
    assert path.read_bytes() == data == bytes(area)


def test_a_private_map_is_shared_and_can_be_written_to(framework, np, tmp_path):
    path = tmp_path / "bytes"
    data = raw(np, "F32", (1024,))
    path.write_bytes(data)
    with path.open("rb") as file:
        area = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    tensor, copied, _ = exchange.made(framework, area, "F32", (1024,))
    assert not copied
    if framework in ("torch", "numpy"):
        tensor[:] = 0
    assert path.read_bytes() == data


def test_a_copy_on_the_way_to_the_host_says_why(torch, np):
    turned = torch.arange(6.0).reshape(2, 3).t()
    found = exchange.host(turned)
    assert (found.copied, found.why) == (True, "it is not contiguous")
    assert bytes(found.data) == turned.contiguous().numpy().tobytes()
    conjugate = torch.complex(torch.ones(2), torch.ones(2)).conj()
    assert "conjugate" in exchange.host(conjugate).why
    swapped = np.arange(3, dtype=">i4")
    assert exchange.host(swapped).why == "its bytes were in reverse order"
    assert bytes(exchange.host(swapped).data) == np.arange(3, dtype="<i4").tobytes()


def test_parameters_and_variables_give_their_value(torch, tf, np):
    parameter = torch.nn.Parameter(torch.ones(2))
    assert not exchange.host(parameter).copied
    assert exchange.into(parameter, "numpy").tensor.tolist() == [1, 1]
    variable = tf.Variable([1.0, 2.0])
    before = exchange.host(variable)
    variable.assign([3.0, 4.0])
    assert np.frombuffer(before.data, "f4").tolist() == [1, 2]  # what was lent does not change


def test_a_storage_that_is_lent_for_long_does_not_move(torch):
    tensor = torch.arange(4.0)
    array = exchange.into(tensor, "numpy").tensor
    with pytest.raises(RuntimeError, match="resize"):
        tensor.resize_(1 << 20)
    assert array.tolist() == [0, 1, 2, 3]
    after = torch.arange(4.0)
    exchange.host(after)
    after.resize_(1 << 20)  # what was only written may move


def test_a_look_at_a_jax_array_does_not_block_its_donation(jax):
    array = jax.numpy.arange(1024.0)
    exchange.host(array)
    place_before = array.unsafe_buffer_pointer()
    result = jax.jit(lambda x: x + 1, donate_argnums=0)(array)
    assert result.unsafe_buffer_pointer() == place_before


def test_what_has_no_plain_bytes_is_refused_with_the_reason(torch, jax, tf, np):
    def inside(x):
        with pytest.raises(tenure.Unsupported, match="symbolic"):
            exchange.host(x)
        return x

    jax.jit(inside)(1.0)
    tf.function(inside)(tf.constant(1.0))
    graph = tf.Graph()
    with graph.as_default():
        symbolic = tf.constant(1.0)
    refused = {
        "sparse": torch.eye(2).to_sparse(),
        "nested": torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged),
        "symbolic": torch.ones(2, device="meta"),
        "complex128": torch.ones(2, dtype=torch.complex128),
        "key_data": jax.random.key(0),
        "int4": jax.numpy.ones(2, "int4"),
        "string": tf.constant("text"),
        "no plain numbers": np.array([object()]),
        "out-of-scope|symbolic": symbolic,
        "only tensors": [1, 2],
        "got str": "text",
    }
    for match, thing in refused.items():
        with pytest.raises(tenure.Unsupported, match=match):
            exchange.host(thing)
    with pytest.raises(tenure.Unsupported, match="not a framework"):
        exchange.into(np.ones(1), "mxnet")
    with pytest.raises(tenure.Unsupported, match="has 8 bytes, and these are 4"):
        exchange.made("numpy", bytes(4), "F32", (2,))
    with pytest.raises(tenure.Unsupported, match="not a dtype"):
        exchange.made("numpy", bytes(4), "F31", (1,))


def test_ended_tensors_say_so(torch, jax):
    for tensor in (torch.ones(2), jax.numpy.ones(2)):
        tenure.dispose(tensor)
        with pytest.raises(tenure.TensorReleased, match="dispose"):
            exchange.host(tensor)
    gone = jax.numpy.ones(2)
    gone.delete()
    with pytest.raises(tenure.TensorReleased, match="delete"):
        exchange.host(gone)


def test_what_shares_the_bytes_outlives_the_end_of_their_tensor(framework, np):
    for like in INSTALLED:
        tensor = exchange.made(framework, mapped(np.arange(1024, dtype="f4").tobytes()), "F32", (1024,)).tensor
        other = exchange.into(tensor, like).tensor
        if like == framework:
            continue
        tenure.dispose(tensor)
        if framework == "jax":
            assert tensor.is_deleted() or tenure.info(tensor).state == "disposed"
        del tensor
        assert exchange.into(other, "numpy").tensor.tolist() == list(range(1024))


def test_what_shares_the_bytes_outlives_a_donation(jax, np):
    array = jax.numpy.arange(1024.0)
    for like in INSTALLED:
        if like != "jax":
            array = jax.numpy.arange(1024.0)
            other = exchange.into(array, like).tensor
            result = jax.jit(lambda x: x * 0, donate_argnums=0)(array)
            result.block_until_ready()
            assert exchange.into(other, "numpy").tensor.tolist() == list(range(1024))
            gone = jax.numpy.arange(1024.0)
            other = exchange.into(gone, like).tensor
            gone.delete()
            jax.numpy.zeros(1024).block_until_ready()  # would take the place
            assert exchange.into(other, "numpy").tensor.tolist() == list(range(1024))
