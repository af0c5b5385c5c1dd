"""What torch offers beside plain tensors; every line of output must be the same under trace."""

import copy
import io
import os
import pickle
import threading
import warnings

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_in_torch_dispatch_mode
from torch.utils._pytree import tree_map

warnings.simplefilter("always")
warnings.filterwarnings("ignore", ".*is deprecated. Please switch to")
torch._logging.set_logs(all=50)  # log lines bear the time
torch.manual_seed(0)


def check(name):
    def run(function):
        try:
            found = function()
        except Exception as error:
            found = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
        torch.manual_seed(0)
        print(name, found)

    return run


class Plain(torch.Tensor):
    pass


class Named(torch.Tensor):
    def __new__(cls, data, name):
        return super().__new__(cls, data)

    def __init__(self, data, name):
        self.label = name


class Counted(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Counted.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class Logged(torch.Tensor):
    """With `__torch_dispatch__` and bytes of its own."""

    log = []

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_subclass(cls, x, x.requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Logged.log.append(str(func))
        with torch._C._DisableTorchDispatch():
            return func(*args, **(kwargs or {}))


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.size(), dtype=x.dtype, device=x.device)

    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"Wrapper({self.x.tolist()})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        inner = tree_map(lambda t: t.x if isinstance(t, Wrapper) else t, (args, kwargs or {}))
        return tree_map(lambda t: Wrapper(t) if isinstance(t, torch.Tensor) else t, func(*inner[0], **inner[1]))


class Unwilling(Wrapper):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


@check("legacy constructors")
def _():
    made = [Plain(torch.ones(2)), Plain([1.0, 2.0]), Plain(2, 3), Plain(), Plain(torch.Size([2])), torch.Tensor([3.0])]
    made += [Named([1.0], "n"), Plain(made[0]), torch.FloatTensor([1.0]), torch.LongTensor(2).zero_()]
    made += [torch.ones(2).new([1.0]), torch.ones(1).new(2).zero_(), Plain(numpy.ones(2, dtype="f4"))]
    return [(type(one).__name__, tuple(one.shape), one.dtype) for one in made]


@check("constructor errors")
def _():
    found = []
    for wrong in ("a", object(), [1, "x"]):
        try:
            Plain(wrong)
        except Exception as error:
            found.append((type(error).__name__, str(error).splitlines()[0][:60]))
    return found


@check("shares memory")
def _():
    x = torch.ones(3)
    y = Plain(x)
    y[0] = 5
    return x.tolist(), y.data_ptr() == x.data_ptr(), Named(x, "n").label, torch.Tensor.__new__(Plain, x).tolist()


@check("_make_subclass")
def _():
    x = torch.ones(2, requires_grad=True)
    made = [torch.Tensor._make_subclass(Plain, x), x.as_subclass(Plain), torch.nn.Parameter(x), Plain(x).detach()]
    return [(type(one).__name__, one.requires_grad, one.is_leaf) for one in made]


@check("__torch_function__")
def _():
    x = torch.ones(3).as_subclass(Counted)
    y = (x + 1).sum() * x.shape[0]
    return type(y).__name__, y.item(), Counted.calls


@check("__torch_dispatch__")
def _():
    x = Logged(torch.ones(3, requires_grad=True))
    (x * 2).sum().backward()
    return Logged.log, type(x.grad).__name__


@check("wrapper subclass")
def _():
    return Wrapper(torch.ones(2)) + 1, (Wrapper(torch.ones(2, 2)) @ torch.ones(2, 2)).sum()


@check("not implemented")
def _():
    return (Unwilling(torch.ones(2)) + 1).shape


@check("modes")
def _():
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    class Function(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Mode(), Mode(), Function():
        torch.ones(2).add(1).sum()
        inside = is_in_torch_dispatch_mode(include_infra_modes=False)
    return seen, inside, is_in_torch_dispatch_mode(include_infra_modes=False)


@check("a constructor under a mode")
def _():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode():
        return type(Plain(torch.ones(2)))


@check("a device as context")
def _():
    with torch.device("meta"):
        return torch.ones(2).device, torch.nn.Linear(2, 2).weight.device


@check("functorch")
def _():
    from torch.func import functional_call, grad, hessian, jacrev, jvp, vjp, vmap

    def f(x):
        return (x.sin() * x).sum()

    x = torch.arange(3.0)
    model = torch.nn.Linear(3, 1)
    return (
        grad(f)(x).tolist(), vmap(f)(torch.ones(2, 3)).tolist(), hessian(f)(x).shape, jacrev(f)(x).shape,
        jvp(f, (x,), (x,))[1].item(), vjp(f, x)[1](torch.tensor(1.0))[0].tolist(),
        vmap(grad(f), chunk_size=1)(torch.ones(2, 3)).shape,
        functional_call(model, dict(model.named_parameters()), (x,)).shape,
        vmap(lambda x: torch.rand(2), randomness="different")(torch.ones(3)).shape,
    )  # fmt: skip


@check("forward mode")
def _():
    import torch.autograd.forward_ad as fwad

    with fwad.dual_level():
        dual = fwad.make_dual(torch.ones(2), torch.ones(2))
        return fwad.unpack_dual(dual.exp()).tangent.tolist()


@check("double backward")
def _():
    x = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    return x.grad.tolist(), torch.autograd.gradcheck(torch.sin, torch.ones(2, dtype=torch.double, requires_grad=True))


@check("custom functions")
def _():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x, x.view_as(x)

        @staticmethod
        def backward(ctx, a, b):
            return a if b is None else b

    x = torch.ones(2, requires_grad=True)
    Double.apply(x.clone()).sum().backward()
    Same.apply(x)[1].sum().backward()
    return x.grad.tolist()


@check("hooks")
def _():
    seen = []
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda g: seen.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    y = x * 2
    y.retain_grad()
    y.grad_fn.register_prehook(lambda *a: seen.append("pre"))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append("pack") or t, lambda t: t):
        z = y.exp()
    z.sum().backward()
    model = torch.nn.Linear(2, 2)
    model.register_full_backward_hook(lambda *a: seen.append("module"))
    model(torch.ones(1, 2)).sum().backward()
    return seen, y.grad.tolist(), torch.autograd.graph.get_gradient_edge(z).output_nr


@check("modes of autograd")
def _():
    with torch.inference_mode():
        x = torch.ones(2)
    with torch.no_grad():
        y = x.clone()
    found = [x.is_inference(), y.is_inference()]
    try:
        x.add_(1)
    except RuntimeError as error:
        found.append(str(error)[:30])
    with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        z = torch.zeros(1, requires_grad=True)
        try:
            (z.sqrt() * 0).backward()
        except RuntimeError as error:
            found.append(str(error)[:60])
    return found


@check("checkpointing")
def _():
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    x = torch.ones(3, requires_grad=True)
    checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False).sum().backward()
    checkpoint(lambda x: x.sin().exp(), x, use_reentrant=True).sum().backward()
    keep = lambda: create_selective_checkpoint_contexts([torch.ops.aten.sin.default])  # noqa: E731
    checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False, context_fn=keep).sum().backward()
    return x.grad.tolist()


@check("jit")
def _():
    def f(x):
        return x * 2 + x.sum()

    traced = torch.jit.trace(f, torch.ones(2))
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    buffer.seek(0)
    graph = [node.kind() for node in traced.graph.nodes()]
    return graph, torch.jit.load(buffer)(torch.ones(2)).tolist(), scripted(torch.ones(1, 2)).shape


@check("fx and export")
def _():
    from torch.fx.experimental.proxy_tensor import make_fx

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x) + 1

    symbolic = [node.op for node in torch.fx.symbolic_trace(Model()).graph.nodes]
    made = [str(node.target) for node in make_fx(lambda x: x.sin() + 1)(torch.ones(2)).graph.nodes]
    exported = torch.export.export(Model(), (torch.ones(2),))
    return symbolic, made, [str(node.target) for node in exported.graph.nodes]


@check("compile")
def _():
    graphs = []

    def backend(graph, inputs):
        graphs.append(len(list(graph.graph.nodes)))
        return graph.forward

    @torch.compile(backend=backend, fullgraph=True)
    def f(x):
        return x.sin() + 1

    @torch.compile(backend="aot_eager")
    def g(x):
        y = x.cos()
        torch._dynamo.graph_break()
        return y * 2

    @torch.compile(backend=backend)
    def made(x):
        return Plain(x) + 1

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(optimizer.step, backend="eager")
    x = torch.ones(2, requires_grad=True)
    found = [f(x).tolist(), g(x).sum().item(), type(made(x)).__name__]
    g(x).sum().backward()
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        step()
    return found, x.grad.tolist(), graphs, torch._dynamo.explain(g)(x).graph_break_count


@check("higher order operators")
def _():
    from torch._higher_order_ops.while_loop import while_loop

    x = torch.ones(2)
    found = torch.cond(x.sum() > 1, lambda x: x + 1, lambda x: x - 1, (x,))
    counted = while_loop(lambda i: i < 3, lambda i: (i + 1,), (torch.tensor(0),))
    return found.tolist(), counted[0].item()


@check("fake and meta")
def _():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.nn.Linear(2, 3)(mode.from_tensor(torch.ones(4, 2)))
    return type(x).__name__, tuple(x.shape), x.device, torch.ones(2, device="meta").add(1).shape


@check("functionalize")
def _():
    return torch.func.functionalize(lambda x: x.clone().add_(1))(torch.ones(2)).tolist()


@check("copies")
def _():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    model.extra = Plain(torch.ones(2))
    made = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model.extra)]
    buffer = io.BytesIO()
    torch.save({"x": torch.arange(4)[1:], "p": torch.nn.Parameter(torch.ones(1)), "s": Plain(torch.ones(1))}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    return type(made[0].extra).__name__, type(made[1].extra).__name__, type(made[2]).__name__, loaded


@check("layouts")
def _():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    old = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    sparse = torch.eye(3).to_sparse()
    csr = torch.eye(3).to_sparse_csr()
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    mkldnn = torch.ones(2).to_mkldnn()
    return (
        (nested * 2).shape[0], [one.shape for one in old.unbind()], (sparse @ torch.ones(3, 1)).tolist(),
        csr.values().tolist(), quantized.dequantize().tolist(), mkldnn.to_dense().tolist(),
        torch.complex(torch.ones(1), torch.ones(1)).conj().is_conj(), torch._neg_view(torch.ones(1)).is_neg(),
    )  # fmt: skip


@check("lazy copies")
def _():
    x = torch.ones(3)
    y = torch._lazy_clone(x)
    z = y + 1
    return torch._C._is_cow_tensor(y), z.tolist(), torch.ones(2).expand(3, 2).is_contiguous()


@check("views and versions")
def _():
    x = torch.ones(4)
    v = x.view(2, 2)[0]
    v.add_(1)
    d = x.data
    d.add_(1)
    x.data = torch.zeros(2)
    return x._version, v._base is not None, d.tolist(), x.tolist(), v.tolist()


@check("swap_tensors")
def _():
    a, b = torch.zeros(1), torch.ones(2)
    torch.utils.swap_tensors(a, b)
    torch.__future__.set_swap_module_params_on_conversion(True)
    model = torch.nn.Linear(2, 2).double()
    torch.__future__.set_swap_module_params_on_conversion(False)
    return a.tolist(), b.tolist(), model.weight.dtype


@check("profilers")
def _():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        torch.ones(8).add(1).sum()
    with torch.autograd.profiler.record_function("mine"):
        torch.ones(2)
    names = {event.key for event in profiler.key_averages()}
    return sorted(name for name in names if name.startswith("aten::") and name != "aten::empty")[:3]


@check("modules")
def _():
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    encoder = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.ones(1, 3, 8)
    with torch.no_grad():
        a, e = attention(x, x, x, need_weights=False)[0], encoder(x)
    rnn = torch.nn.LSTM(4, 3)(torch.ones(2, 1, 4))[0]
    pruned = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    pruned(torch.ones(1, 2)).sum().backward()
    return a.sum().item(), e.std().item(), rnn.shape, len(list(pruned.parameters()))


@check("custom operators")
def _():
    @torch.library.custom_op("odd::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    twice.register_autograd(lambda ctx, g: g * 2)
    x = torch.ones(2, requires_grad=True)
    twice(x).sum().backward()
    return x.grad.tolist(), torch.ops.odd.twice(torch.ones(1)).item()


@check("threads")
def _():
    found = []
    threads = [threading.Thread(target=lambda: found.append(Plain(torch.ones(3)).sum().item())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@check("other memory")
def _():
    array = numpy.ones(3, dtype="f4")
    x = torch.from_numpy(array)
    y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    shared = torch.ones(2).share_memory_()
    x.untyped_storage().nbytes()
    return y.numpy().tolist(), shared.is_shared(), torch.frombuffer(bytearray(8), dtype=torch.float).tolist()


@check("errors")
def _():
    try:
        torch.ones(2) @ torch.ones(3)
    except RuntimeError as error:
        frames = []
        at = error.__traceback__
        while at is not None:
            frames.append(os.path.basename(at.tb_frame.f_code.co_filename))
            at = at.tb_next
        return str(error)[:40], frames[:1], error.__context__


print("overridable", len(torch.overrides.get_overridable_functions()) > 100)

print("left", torch.overrides.has_torch_function((torch.ones(1),)))
