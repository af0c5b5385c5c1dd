"""Tensors on a GPU: to the host and back, to other frameworks, and in a store in memory."""

import importlib.util

import pytest

import tenure
from tenure.frameworks import exchange

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu(torch):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device("cuda")


def test_to_the_host_it_is_copied_and_says_so(torch, gpu):
    tensor = torch.arange(6.0, device=gpu).reshape(2, 3)
    found = exchange.host(tensor)
    assert (found.copied, found.why) == (True, "from cuda:0 to the host")
    assert bytes(found.data) == tensor.cpu().numpy().tobytes()
    array, copied, why = exchange.into(tensor, "numpy")
    assert copied
    assert "from cuda:0 to the host" in why
    assert array.tolist() == tensor.tolist()


def test_another_framework_takes_it_where_it_is_or_says_why_not(torch, gpu):
    tensor = torch.arange(1024.0, device=gpu)
    for like in ("jax", "tensorflow"):
        if importlib.util.find_spec(like) is None:
            continue
        other, copied, why = exchange.into(tensor, like)
        assert copied == bool(why)
        if copied:
            assert f"{like} could not take it by DLPack" in why
        else:
            assert "cpu" not in tenure.info(other).device.lower()
        assert exchange.into(other, "numpy").tensor.tolist() == tensor.tolist()


def test_in_a_store(torch, gpu):
    store = tenure.Store("memory:")
    with tenure.scope():
        store["w"] = torch.ones(1 << 20, device=gpu)
    assert store["w"].sum().item() == 1 << 20
    assert store.entry("w").nbytes == 4 << 20
    before = torch.cuda.memory_allocated()
    remains = store.delete("w")
    assert remains.freed_bytes == 4 << 20
    assert before - torch.cuda.memory_allocated() == 4 << 20
    kept = store["w"] = torch.ones(1 << 20, device=gpu)
    remains = store.delete("w")
    assert remains.held_bytes == 4 << 20
    assert "kept" in [holder.name for holder in remains.holders]
    assert kept.sum().item() == 1 << 20
