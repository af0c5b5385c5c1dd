"""What a function written in Python saved for backward: torch hands it the very handle that the user had."""

import pytest

import tenure

torch = pytest.importorskip("torch")


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


def leaf():
    return torch.arange(6.0).requires_grad_()


def expected():
    x = leaf()
    Cube.apply(x * 2).sum().backward()
    return x.grad


def test_a_saved_handle_ends_and_backward_is_right():
    x = leaf()
    y = x * 2
    loss = Cube.apply(y).sum()
    tenure.dispose(y)
    assert tenure.info(y).state == "disposed"
    loss.backward()
    assert torch.equal(x.grad, expected())


def test_one_that_cannot_lose_its_bytes_stays_as_it_was():
    x = leaf()
    y = x * 2
    y.retain_grad()  # torch then refers to it weakly, and will not let it be swapped
    loss = Cube.apply(y).sum()
    (remnant,) = tenure.dispose(y)
    assert remnant.fate == "cannot"
    assert "CubeBackward saved this very handle" in remnant.reason
    assert tenure.info(y).state == "live"
    assert y.sum().item() == 30
    loss.backward()
    assert torch.equal(x.grad, expected())
    del loss
    tenure.dispose(y)
    assert tenure.info(y).state == "disposed"


def test_one_whose_memory_numpy_reads_is_right_in_backward():
    w = leaf()
    x = torch.arange(6.0)

    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, w, x):
            ctx.save_for_backward(x)
            return w * x

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0], None

    loss = Times.apply(w, x).sum()
    array = x.numpy()
    (remnant,) = tenure.dispose(x)
    assert remnant.fate in ("held", "cannot"), remnant
    loss.backward()
    assert w.grad.tolist() == array.tolist() == [0, 1, 2, 3, 4, 5]


def test_once_backward_is_done_it_can_be_ended():
    x = leaf()
    y = x * 2
    y.retain_grad()
    loss = Cube.apply(y).sum()
    loss.backward()
    assert tenure.dispose(y)
    assert tenure.info(y).state == "disposed"


def test_a_scope_leaves_it_too():
    x = leaf()
    with tenure.scope("step") as step:
        y = x * 2
        y.retain_grad()
        loss = tenure.keep(Cube.apply(y).sum())
    assert [remnant.fate for remnant in step.remains if remnant.nbytes == 24][:1] == ["cannot"]
    loss.backward()
    assert torch.equal(x.grad, expected())
