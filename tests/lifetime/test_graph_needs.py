"""What a graph that outlives a scope needs for its backward pass is not ended with the scope."""

import pytest

import tenure

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.extra = x.detach() + 1
        ctx.more = {"list": [x.detach() * 3]}
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x + ctx.extra * grad + ctx.more["list"][0]


def by_function(x):
    return Square.apply(x)


def by_hook_of_tensor(x):
    factor = x.detach() + 2
    y = x * 2
    y.register_hook(lambda grad: grad * factor)
    return y * y


def by_hook_of_node(x):
    factors = [x.detach() + 2]
    y = x * 2
    y.grad_fn.register_hook(lambda grads, _: (grads[0] * factors[0], *grads[1:]))
    return y * y


def by_hook_of_input(x):
    factor = x.detach() + 2
    x.register_hook(lambda grad: grad * factor)
    return x * x


def by_saved_tensor_hooks(x):
    scale = x.detach() + 5

    def unpack(packed):
        return packed["value"] / scale

    with torch.autograd.graph.saved_tensors_hooks(lambda value: {"value": value.detach() * scale}, unpack):
        return (x * 3).exp() * x.sin()


def by_packs_that_are_tensors(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda value: value.detach().clone(), lambda packed: packed * 1):
        return (x * 3).exp() * x.sin()


def by_checkpoint(x):
    factor = x.detach() + 2
    return checkpoint(lambda a, b: (a * b * factor).sin(), x * 2, x.detach() + 3, use_reentrant=False)


def by_reentrant_checkpoint(x):
    factor = x.detach() + 2
    return checkpoint(lambda a, b: (a * b * factor).sin(), x * 2, x.detach() + 3, use_reentrant=True)


WAYS = [one for name, one in list(globals().items()) if name.startswith("by_")]


def gradient(way, scoped):
    torch.manual_seed(0)
    x = torch.rand(4, requires_grad=True)
    if scoped:
        with tenure.scope():
            y = tenure.keep(way(x))
    else:
        y = way(x)
    y.sum().backward()
    return x.grad


@pytest.mark.parametrize("way", WAYS)
def test_backward_after_the_scope_is_as_without_it(way):
    assert torch.equal(gradient(way, scoped=True), gradient(way, scoped=False))


def test_what_only_a_running_programs_objects_lead_to_is_ended():
    class Trainer:
        def __init__(self):
            self.history, self.last = [], None

        def step(self, *args, **kwargs):
            def log(value):
                self.history.append(value)

            with tenure.scope():
                loss = (x * 2).sum()
                self.last = {"loss": loss}
                log(loss + 1)
                loss.backward()

    x = torch.rand(4, requires_grad=True)
    trainer = Trainer()
    for _ in range(3):
        (lambda *args, **kwargs: trainer.step(*args, **kwargs))(1, b=[2])
    assert [tenure.info(one).state for one in [*trainer.history, trainer.last["loss"]]] == ["disposed"] * 4


def test_it_goes_with_the_graph():
    x = torch.rand(4, requires_grad=True)
    with tenure.scope():
        y = tenure.keep(Square.apply(x))
    extra = y.grad_fn.extra
    assert tenure.info(extra).state == "live"
    import weakref

    gone = weakref.ref(extra)
    del extra, y
    assert gone() is None
