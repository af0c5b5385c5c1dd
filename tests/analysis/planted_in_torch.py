"""Holders that only torch has, planted on purpose; see planted.py."""

from __future__ import annotations

from planted import GLOBAL


def _model():
    import torch

    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())


def module_buffer(x):
    model = _model()
    model[0].register_buffer("mean", x)
    GLOBAL.append(model)
    del x, model
    yield "global", r"GLOBAL\[0\]\[0\]\.mean$"
    GLOBAL.clear()


def named_child(x):
    import torch

    parent = torch.nn.Module()
    parent.body = _model()
    parent.body[0].weight = torch.nn.Parameter(x, requires_grad=False)
    GLOBAL.append(parent)
    del x, parent
    yield "view", r"GLOBAL\[0\]\.body\[0\]\.weight$"
    GLOBAL.clear()


def forward_hook(x):
    def make(y):
        return lambda *_: y

    GLOBAL.append(_model())
    GLOBAL[0][1].register_forward_hook(make(x))
    del x
    yield "global", r"GLOBAL\[0\]\[1\] → forward hook → closure cell y of <function .*<lambda>>$"
    GLOBAL.clear()


def backward_hook(x):
    def make(y):
        return lambda *_: y

    GLOBAL.append(_model())
    GLOBAL[0][1].register_full_backward_hook(make(x))
    del x
    yield "global", r"GLOBAL\[0\]\[1\] → backward hook → closure cell y of <function .*<lambda>>$"
    GLOBAL.clear()


def tensor_hook(x):
    import torch

    def make(y):
        return lambda *_: y

    w = torch.ones(2, requires_grad=True)
    w.register_hook(make(x))
    GLOBAL.append(w)
    del x, w
    yield "global", r"GLOBAL\[0\]\._backward_hooks\[\d+\] → closure cell y of <function .*<lambda>>$"
    GLOBAL.clear()


def gradient(x):
    import torch

    w = torch.zeros_like(x, requires_grad=True)
    w.grad = x
    GLOBAL.append(w)
    del x, w
    yield "global", r"GLOBAL\[0\]\.grad$"
    GLOBAL.clear()


def optimizer_state(x):
    import torch

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.state[model.weight]["exp_avg"] = x
    GLOBAL.append((model, optimizer))
    del x, model, optimizer
    yield "global", r"GLOBAL\[0\]\[1\]\.state\[weight\]\['exp_avg'\]$"
    GLOBAL.clear()


def attribute_of_a_tensor(x):
    import torch

    GLOBAL.append(torch.ones(1))
    GLOBAL[0].origin = x
    del x
    yield "global", r"GLOBAL\[0\]\.origin$"
    GLOBAL.clear()


def view(x):
    GLOBAL.append(x[:1])
    del x
    yield "view", r"GLOBAL\[0\]$"
    GLOBAL.clear()


def storage(x):
    GLOBAL.append(x.untyped_storage())
    del x
    yield "storage", r"GLOBAL\[0\]$"
    GLOBAL.clear()


def array(x):
    GLOBAL.append({"a": (x.numpy(),)})
    del x
    yield "array", r"GLOBAL\[0\]\['a'\]\[0\]$"
    GLOBAL.clear()


def slice_of_an_array(x):
    GLOBAL.append(x.numpy()[:1])
    del x
    yield "array", r"GLOBAL\[0\]$"
    GLOBAL.clear()


def memory_view(x):
    GLOBAL.append(memoryview(x.numpy()))
    del x
    yield "memoryview", r"GLOBAL\[0\]$"
    GLOBAL.clear()


def dlpack_array(x):
    import numpy

    GLOBAL.append(numpy.from_dlpack(x))
    del x
    yield "array", r"GLOBAL\[0\]$"
    GLOBAL.clear()


def array_of_objects(x):
    import numpy

    box = numpy.empty(2, dtype=object)
    box[1] = x
    GLOBAL.append(box)
    del x, box
    yield "global", r"GLOBAL\[0\]\[1\]$"
    GLOBAL.clear()


def saved_input(x):
    import torch

    w = torch.ones_like(x, requires_grad=True)
    GLOBAL.append(w * x)
    del x, w
    yield "global", r"GLOBAL\[0\] → autograd MulBackward0 → saved other$"
    GLOBAL.clear()


def saved_deep_in_a_graph(x):
    import torch

    w = torch.ones_like(x, requires_grad=True)
    GLOBAL.append((w * x).exp().sum())
    del x, w
    yield "global", r"GLOBAL\[0\] → autograd SumBackward0 → ExpBackward0 → MulBackward0 → saved other$"
    GLOBAL.clear()


def saved_by_a_python_function(x):
    import torch

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, w, y):
            ctx.save_for_backward(y)
            return w * 2

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    GLOBAL.append(Twice.apply(torch.ones_like(x, requires_grad=True), x))
    del x
    yield "global", r"GLOBAL\[0\] → autograd TwiceBackward → saved tensors\[0\]$"
    GLOBAL.clear()


def attribute_of_a_python_function(x):
    import torch

    class Thrice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, w, y):
            ctx.kept = [y]
            return w * 3

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    GLOBAL.append((Thrice.apply(torch.ones_like(x, requires_grad=True), x) * 2).sum())
    del x
    yield "global", r"GLOBAL\[0\] → autograd SumBackward0 → MulBackward0 → ThriceBackward\.kept\[0\]$"
    GLOBAL.clear()


def packed_by_a_saved_tensor_hook(x):
    import torch

    def unpack(_):
        raise AssertionError("the search must not run the user's hooks")

    w = torch.ones_like(x, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda y: y, unpack):
        GLOBAL.append(w * x)
    del x, w
    yield "global", r"GLOBAL\[0\] → autograd MulBackward0 → saved other$"
    GLOBAL.clear()


TORCH = (
    module_buffer, named_child, forward_hook, backward_hook, tensor_hook, gradient, optimizer_state,
    attribute_of_a_tensor, view, storage, array, slice_of_an_array, memory_view, dlpack_array, array_of_objects,
    saved_input, saved_deep_in_a_graph, saved_by_a_python_function, attribute_of_a_python_function,
    packed_by_a_saved_tensor_hook,
)  # fmt: skip
