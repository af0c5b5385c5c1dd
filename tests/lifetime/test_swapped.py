"""What torch itself does to tensors of a scope goes on as without tenure: swapping, setting data, exporting."""

import os
import weakref

import pytest

import tenure

torch = pytest.importorskip("torch")


@pytest.fixture
def swapping():
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.mark.parametrize("cap", [None, "1 GiB"])
def test_tensors_are_swapped_in_a_scope(cap):
    with tenure.scope(cap=cap) as outer:
        a, b = torch.ones(3), torch.zeros(3)
        with tenure.scope(cap=cap):
            c = tenure.keep(torch.full((3,), 2.0))
            torch.utils.swap_tensors(a, c)
        torch.utils.swap_tensors(a, b)
        assert [one.tolist() for one in (a, b, c)] == [[0.0] * 3, [2.0] * 3, [1.0] * 3]
        assert len(outer.tensors()) == 3
    assert [tenure.info(one).state for one in (a, b, c)] == ["disposed"] * 3


def test_the_users_weak_references_are_seen():
    with tenure.scope():
        a, b = torch.ones(3), torch.zeros(3)
        mine = weakref.ref(a)
        with pytest.raises(RuntimeError, match="has weakref"):
            torch.utils.swap_tensors(a, b)
        assert mine() is a
        del mine
        torch.utils.swap_tensors(a, b)


def test_modules_are_converted_by_swapping(swapping):
    with tenure.scope():
        model = torch.nn.Linear(2, 2)
        other = torch.nn.Linear(2, 2)
        for one in (*model.parameters(), *other.parameters()):
            one.grad = torch.ones_like(one)
        model.load_state_dict(other.state_dict())
        model.to(torch.float64)
    assert model.weight.dtype == torch.float64
    assert torch.equal(model.weight, other.weight.double())


@pytest.mark.skipif(os.environ.get("TENURE_NATIVE") == "0", reason="without native extensions it reads NaN")
def test_an_ended_tensor_as_anothers_data():
    x, other, third = torch.ones(8), torch.zeros(8), torch.ones(4)
    tenure.dispose(x)
    other.data = x
    with pytest.raises(RuntimeError, match="<released torch tensor"):
        other.sum()
    assert tenure.memory().nbytes > 0
    assert tenure.holders(third)
    assert tenure.holders(other) == []
    assert tenure.info(other).nbytes == 0
    remains = tenure.dispose(other)
    assert [one.fate for one in remains.remnants] == ["cannot"]
    assert [one.nbytes for one in tenure.dispose(third).freed] == [16]
    with tenure.scope() as s:
        new = torch.zeros(2)
        try:
            new.data = x
        except tenure.TensorReleased:
            pass
    assert s.remains is not None


@pytest.mark.parametrize("home", [torch, torch.utils.dlpack])
def test_an_ended_tensor_is_not_exported(home):
    x = torch.ones(8)
    tenure.dispose(x)
    with pytest.raises(tenure.TensorReleased, match=r"to_dlpack\(\)"):
        home.to_dlpack(x)
    assert torch.equal(torch.from_dlpack(home.to_dlpack(torch.ones(8))), torch.ones(8))
