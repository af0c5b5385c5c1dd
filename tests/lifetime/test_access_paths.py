"""Every way to the data of an ended tensor is closed: it raises, it never crashes and never gives a value.

The accesses run in children. What it may end with: TensorReleased, an error with our epitaph in its text
(raised by the framework's C++), or a TypeError where a live tensor would give one too. Metadata stays right.
"""

import copy
import functools
import io
import logging
import math
import operator
import os
import pickle

import pytest

import tenure

torch = pytest.importorskip("torch")

FALLBACK = os.environ.get("TENURE_NATIVE") == "0"
# The ends of JAX's arrays and TensorFlow's variables are their own: without the native parts nothing is otherwise.
NOTHING_NATIVE = pytest.mark.skipif(FALLBACK, reason="has no native part, and was tried with the others")
CASES = {}
PREPARE = {}


# ------------------------------------------------------------------------------------------------ torch: the handles


def _plain():
    return torch.full((2, 3), 7.5)


def _parameter():
    return torch.nn.Parameter(torch.full((2, 3), 7.5))


def _saved():
    """Autograd holds the very same tensor."""
    t = torch.full((2, 3), 7.5, requires_grad=True)
    t.kept = t * t
    return t


def _retained():
    """Has a native weak reference, so torch will not swap what is below the handle."""
    t = torch.full((2, 3), 2.5, requires_grad=True) * 3
    t.retain_grad()
    return t


def _view():
    whole = torch.full((4, 3), 7.5)
    view = whole[:2]
    view.whole = whole
    return view


def _exported():
    t = torch.full((2, 3), 7.5)
    t.array = t.numpy()
    return t


STATES = {
    "plain": _plain,
    "parameter": _parameter,
    "saved": _saved,
    "retained": _retained,
    "view": _view,
    "exported": _exported,
}

# ------------------------------------------------------------------------------------------------ torch: the ways

TORCH = {}
COMPILED = {}
# Ways past Python's seal. Where nothing native is at hand and the bytes could not be taken away, they read true ones.
BELOW_PYTHON = set(
    "tensor_of new_tensor set_from_it set_data_of_another to_dlpack as_subclass as_plain_tensor made_a_subclass "
    "class_put_back old_constructor variable_of backward_with_it grad_outputs vmapped func_grad sparse_of_it "
    "traced_function scripted_function below_torch_function_add below_torch_function_tolist "
    "below_torch_function_storage below_torch_function_alias below_all_functions set_storage".split()
)


def way(function):
    TORCH[function.__name__.strip("_")] = function
    return function


for _name in "add sub mul truediv floordiv mod pow matmul lt le gt ge eq ne".split():
    TORCH[f"operator_{_name}"] = functools.partial(lambda name, t: getattr(operator, name)(t, torch.ones(2, 3)), _name)
    TORCH[f"reflected_{_name}"] = functools.partial(lambda name, t: getattr(operator, name)(torch.ones(2, 3), t), _name)
for _name in "neg pos abs invert".split():
    TORCH[f"operator_{_name}"] = functools.partial(lambda name, t: getattr(operator, name)(t), _name)
for _name in (
    "sum mean clone tolist numpy detach contiguous cpu float double long relu exp max sort nonzero unique isnan t flatten zero_ "
    "relu_ data_ptr untyped_storage storage requires_grad_ backward share_memory_ retain_grad is_shared __dlpack__ "
    "__dlpack_device__ __array__ unbind any all bool logical_not"
).split():
    TORCH[f"method_{_name.strip('_')}"] = functools.partial(lambda name, t: getattr(t, name)(), _name)


@way
def item(t):
    return t[:1, 0].item()


@way
def reshape(t):
    return t.reshape(6)


@way
def expand(t):
    return torch.ones(3).expand_as(t), t.unsqueeze(0).expand(2, 2, 3)


@way
def softmax(t):
    return t.softmax(0)


@way
def split(t):
    return t.split(1)


@way
def reduced(t):
    return t.__reduce_ex__(2)


@way
def hooked(t):
    return t.register_hook(print)


@way
def augmented_add(t):
    t += 1
    return t


@way
def augmented_to_another(t):
    other = torch.ones(2, 3)
    other += t
    return other


@way
def scalar_add(t):
    return 1 + t


@way
def scalar_subtract(t):
    return 1 - t


@way
def index(t):
    return t[0]


@way
def index_element(t):
    return t[0, 0].item()


@way
def index_slice(t):
    return t[:, 1:]


@way
def index_mask(t):
    return t[torch.ones(2, 3, dtype=torch.bool)]


@way
def as_index(t):
    return torch.ones(10)[t]


@way
def set_item(t):
    t[0] = 1
    return t.sum()


@way
def set_item_from_it(t):
    other = torch.ones(2, 3)
    other[0] = t[0]
    return other


@way
def set_whole_from_it(t):
    other = torch.ones(2, 3)
    other[:] = t
    return other


@way
def iterate(t):
    return [row.sum() for row in t]


@way
def unpack(t):
    a, b = t
    return a


@way
def truth(t):
    return bool(t)


@way
def condition(t):
    return 1 if t.any() else 2


@way
def as_float(t):
    return float(t)


@way
def as_int(t):
    return int(t)


@way
def as_complex(t):
    return complex(t)


@way
def as_index_number(t):
    return [1, 2, 3][t]


@way
def contains(t):
    return 7.5 in t


@way
def contained(t):
    return t in [torch.ones(2, 3)]


@way
def in_math(t):
    return math.sqrt(t)


@way
def tensor_of(t):
    return torch.tensor(t)


@way
def as_tensor(t):
    return torch.as_tensor(t) + 0


@way
def asarray(t):
    return torch.asarray(t) + 0


@way
def new_tensor(t):
    return torch.ones(1).new_tensor(t)


@way
def tensor_of_list(t):
    return torch.tensor([t, t])


@way
def stack(t):
    return torch.stack([t, t])


@way
def cat(t):
    return torch.cat([torch.ones(2, 3), t])


@way
def cat_in_tuple(t):
    return torch.cat((t,), dim=1)


@way
def foreach(t):
    return torch._foreach_add([torch.ones(2, 3), t], 1.0)


@way
def foreach_norm(t):
    return torch._foreach_norm([t])


@way
def linear(t):
    return torch.nn.functional.linear(torch.ones(1, 3), t)


@way
def linear_input(t):
    return torch.nn.functional.linear(t, torch.ones(4, 3))


@way
def embedding(t):
    return torch.nn.functional.embedding(torch.tensor([0, 1]), t)


@way
def matmul_with_live(t):
    return torch.mm(torch.ones(3, 2), t)


@way
def einsum(t):
    return torch.einsum("ij->j", t)


@way
def where(t):
    return torch.where(torch.ones(2, 3, dtype=torch.bool), t, 0.0)


@way
def multiple_outputs(t):
    return torch.var_mean(t)


@way
def copied_into_another(t):
    return torch.empty(2, 3).copy_(t)


@way
def copied_over(t):
    t.copy_(torch.ones(2, 3))
    return t.sum()


@way
def out_argument(t):
    return torch.add(torch.ones(2, 3), 1, out=t)


@way
def in_place_fill(t):
    return t.fill_(1)


@way
def in_place_random(t):
    return t.normal_()


@way
def init_module(t):
    return torch.nn.init.ones_(t)


@way
def resize(t):
    return t.resize_(1)


@way
def set_storage(t):
    return t.set_(torch.ones(6).untyped_storage(), 0, (2, 3))


@way
def set_from_it(t):
    return torch.empty(0).set_(t)


@way
def get_data(t):
    return t.data + 1


@way
def set_data(t):
    t.data = torch.ones(2, 3)
    return t + 1


@way
def set_data_of_another(t):
    other = torch.ones(2, 3)
    other.data = t
    return other.sum()


@way
def get_grad(t):
    return t.grad.sum()


@way
def set_grad(t):
    t.grad = torch.ones(2, 3)
    return t.grad


@way
def grad_of_another(t):
    other = torch.ones(2, 3, requires_grad=True)
    other.grad = t
    return other.grad.sum()


@way
def set_requires_grad(t):
    t.requires_grad = True
    return (t * 1).sum()


@way
def transposed(t):
    return t.T.sum()


@way
def real(t):
    return t.real.sum()


@way
def numpy_asarray(t):
    import numpy

    return numpy.asarray(t)


@way
def numpy_array(t):
    import numpy

    return numpy.array(t)


@way
def numpy_array_of_list(t):
    import numpy

    return numpy.array([t, t], dtype="float32")


@way
def numpy_ufunc(t):
    import numpy

    return numpy.add(t, 1)


@way
def numpy_function(t):
    import numpy

    return numpy.sum(t)


@way
def numpy_reflected(t):
    import numpy

    return numpy.ones((2, 3), dtype="float32") + t


@way
def numpy_scalar_reflected(t):
    import numpy

    return numpy.float32(1) * t


@way
def numpy_assign(t):
    import numpy

    array = numpy.zeros((2, 3))
    array[...] = t
    return array


@way
def numpy_from_dlpack(t):
    import numpy

    return numpy.from_dlpack(t)


@way
def from_dlpack(t):
    return torch.from_dlpack(t)


@way
def to_dlpack(t):
    return torch.utils.dlpack.to_dlpack(t)


@way
def buffer(t):
    return memoryview(t)


@way
def as_bytes(t):
    return bytes(t)


@way
def deep_copy(t):
    return copy.deepcopy(t).sum()


@way
def shallow_copy(t):
    return copy.copy(t).sum()


@way
def pickled(t):
    return pickle.loads(pickle.dumps(t)).sum()


@way
def saved_to_file(t):
    file = io.BytesIO()
    torch.save({"t": t}, file)
    file.seek(0)
    return torch.load(file)["t"].sum()


@way
def forked_pickle(t):
    from multiprocessing.reduction import ForkingPickler

    from torch.multiprocessing import reductions

    reductions.init_reductions()
    return bytes(ForkingPickler.dumps(t))


@way
def to_dtype(t):
    return t.to(torch.float64)


@way
def to_device(t):
    return t.to("cpu").sum()


@way
def to_meta(t):
    return t.to("meta") + torch.ones(2, 3)


@way
def typed(t):
    return t.type(torch.float64)


@way
def zeros_like(t):
    return torch.zeros_like(t)


@way
def empty_like(t):
    return torch.empty_like(t)


@way
def as_subclass(t):
    class Mine(torch.Tensor):
        pass

    return t.as_subclass(Mine).sum()


@way
def as_plain_tensor(t):
    return t.as_subclass(torch.Tensor).sum()


@way
def made_a_subclass(t):
    return torch.Tensor._make_subclass(torch.Tensor, t).sum()


@way
def class_put_back(t):
    t.__class__ = torch.Tensor
    return (t + 1).sum()


@way
def parameter_of(t):
    return torch.nn.Parameter(t).sum()


@way
def old_constructor(t):
    return torch.Tensor(t).sum()


@way
def variable_of(t):
    return torch.autograd.Variable(t).sum()


@way
def buffer_of_module(t):
    module = torch.nn.Module()
    module.register_buffer("b", t)
    return module.double().b


@way
def weight_of_module(t):
    module = torch.nn.Linear(3, 2)
    module._parameters["weight"] = t
    return module(torch.ones(1, 3))


@way
def load_state_dict(t):
    module = torch.nn.Linear(3, 2)
    module.load_state_dict({"weight": t, "bias": torch.ones(2)})
    return module.weight.sum()


@way
def loaded_over(t):
    module = torch.nn.Linear(3, 2)
    module._parameters["weight"] = t
    module.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.ones(2)})
    return module.weight.sum()


@way
def optimizer_step(t):
    live = torch.nn.Parameter(torch.ones(2, 3))
    optimizer = torch.optim.SGD([live], lr=0.1)
    optimizer.param_groups[0]["params"] = [t]
    optimizer.step()
    return t.sum()


@way
def gradient_is_ended(t):
    live = torch.nn.Parameter(torch.ones(2, 3))
    live.grad = t
    torch.optim.SGD([live], lr=0.1).step()
    return live.sum()


@way
def clip_gradients(t):
    live = torch.nn.Parameter(torch.ones(2, 3))
    live.grad = t
    return torch.nn.utils.clip_grad_norm_([live], 1.0)


@way
def parameters_to_vector(t):
    return torch.nn.utils.parameters_to_vector([t])


@way
def backward_with_it(t):
    x = torch.ones(2, 3, requires_grad=True)
    (x * 2).backward(t)
    return x.grad


@way
def autograd_grad(t):
    return torch.autograd.grad((t * 2).sum(), t)


@way
def autograd_backward(t):
    return torch.autograd.backward([t])


@way
def grad_outputs(t):
    x = torch.ones(2, 3, requires_grad=True)
    return torch.autograd.grad(x * 2, x, grad_outputs=[t])


@way
def custom_function(t):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Double.apply(t).sum()


@way
def checkpointed(t):
    return torch.utils.checkpoint.checkpoint(lambda x: x * 2, t, use_reentrant=False).sum()


@way
def vmapped(t):
    return torch.vmap(lambda x: x * 2)(t)


@way
def func_grad(t):
    return torch.func.grad(lambda x: (x * x).sum())(t)


@way
def func_jvp(t):
    return torch.func.jvp(torch.sin, (t,), (torch.ones(2, 3),))


@way
def func_call(t):
    return torch.func.functional_call(torch.nn.Linear(3, 2), {"weight": t}, (torch.ones(1, 3),))


@way
def aten_op(t):
    return torch.ops.aten.add.Tensor(t, torch.ones(2, 3))


@way
def aten_clone(t):
    return torch.ops.aten.clone(t)


@way
def aten_out(t):
    return torch.ops.aten.add.out(torch.ones(2, 3), torch.ones(2, 3), out=t)


@way
def below_torch_function_add(t):
    with torch._C.DisableTorchFunctionSubclass():
        return torch.add(t, 1)


@way
def below_torch_function_numpy(t):
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.numpy(t)


@way
def below_torch_function_tolist(t):
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.tolist(t)


@way
def below_torch_function_storage(t):
    with torch._C.DisableTorchFunctionSubclass():
        return bytes(torch.Tensor.untyped_storage(t))


@way
def below_torch_function_alias(t):
    with torch._C.DisableTorchFunctionSubclass():
        alias = torch._C.TensorBase.detach(t)
    return torch.Tensor.tolist(alias)


@way
def below_all_functions(t):
    with torch._C.DisableTorchFunction():
        return torch.add(t, 1)


@way
def base_method(t):
    return torch._C.TensorBase.add(t, 1)


@way
def traced_function(t):
    return torch.jit.trace(lambda x: x * 2, torch.ones(2, 3))(t)


@way
def scripted_function(t):
    return SCRIPTED(t)


@way
def dataset_of_it(t):
    return torch.utils.data.TensorDataset(t)[0]


@way
def collated(t):
    return torch.utils.data.default_collate([t, t])


@way
def packed(t):
    return torch.nn.utils.rnn.pad_sequence([t, torch.ones(1, 3)])


@way
def broadcast(t):
    return torch.broadcast_tensors(t, torch.ones(1, 3))[0].sum()


@way
def comparing(t):
    return torch.testing.assert_close(t, torch.full((2, 3), 7.5))


@way
def equal(t):
    return torch.equal(t, torch.full((2, 3), 7.5))


@way
def seeded_random(t):
    return torch.normal(t, 1.0)


@way
def sparse(t):
    return t.to_sparse()


@way
def sparse_of_it(t):
    return torch.sparse_coo_tensor(torch.tensor([[0, 1]]), t).to_dense()


@way
def function_mode(t):
    from torch.overrides import TorchFunctionMode

    class Passing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Passing():
        return t + 1


@way
def dispatch_mode(t):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Passing():
        return torch.add(t, 1)


@way
def inference_mode(t):
    with torch.inference_mode():
        return t + 1


@way
def autocast(t):
    with torch.autocast("cpu"):
        return torch.mm(torch.ones(3, 2), t)


@way
def swapped(t):
    other = torch.ones(2, 3)
    torch.utils.swap_tensors(t, other)
    return other.sum()


@way
def make_fx(t):
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(lambda x: x + 1)(t)


@way
def from_functional(t):
    return torch._from_functional_tensor(torch._to_functional_tensor(t)).sum()


@way
def closed_over_by_compiled(t):
    return torch.compile(lambda x: x + t, backend="eager")(torch.ones(2, 3))


@way
def compiled(t):
    return torch.compile(lambda x: x * 2, backend="eager")(t)


def _try_live(access):
    return access(_plain())


def _try_torch(make, access):
    handle = make()
    tenure.dispose(handle)
    return access(handle)


CASES["torch"] = {
    f"{state} {name}": functools.partial(_try_torch, make, access)
    for state, make in STATES.items()
    for name, access in TORCH.items()
}
CASES["torch"] |= {f"live {name}": functools.partial(_try_live, access) for name, access in TORCH.items()}


def _prepare_torch():
    global SCRIPTED
    logging.getLogger("torch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    SCRIPTED = torch.jit.script(_double)
    for name in ("below_torch_function_add", "optimizer_step", "compiled", "make_fx", "checkpointed"):
        try:  # loads, before the forks, what every child would load
            _try_torch(_plain, TORCH[name])
        except Exception:
            continue


def _double(x):
    return x * 2


PREPARE["torch"] = _prepare_torch


# What the user forces against torch's own rules: any error will do, a crash or a value will not.
FORCED = {"class_put_back", "swapped", "below_torch_function_numpy", "below_torch_function_tolist"}
# TorchScript's interpreter drops the text of errors that come from Python (see docs/limits.md).
FORCED |= {"traced_function", "scripted_function"}
# What torch refuses with words of its own, before it looks further, to whatever requires a gradient.
REFUSED_BY_TORCH = {"set_storage": "a leaf Variable that requires grad"}


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("state", STATES)
def test_torch_data_of_an_ended_tensor_is_out_of_reach(outcomes, state, name):
    found = outcomes(__file__, "torch")
    outcome, live = found[f"{state} {name}"], found[f"live {name}"]
    if FALLBACK and name in BELOW_PYTHON and outcome["kind"] == "value":
        return  # without the native part it is NaN that they find (see docs/limits.md), or nothing was taken away
    assert outcome["kind"] == "error", outcome
    told = outcome["ours"] or "<released torch" in outcome["text"] or "after it was released" in outcome["text"]
    never = outcome["type"] == "TypeError" and live.get("type") == "TypeError"
    own = name in REFUSED_BY_TORCH and REFUSED_BY_TORCH[name] in outcome["text"]
    assert told or never or own or name in FORCED, outcome


@pytest.mark.parametrize("state", STATES)
def test_torch_metadata_of_an_ended_tensor_stays(state):
    t = STATES[state]()
    before = (t.shape, t.dtype, t.device, t.layout, t.dim(), t.numel(), t.stride(), t.nbytes, t.is_cuda)
    tenure.dispose(t)
    assert before == (t.shape, t.dtype, t.device, t.layout, t.dim(), t.numel(), t.stride(), t.nbytes, t.is_cuda)
    assert len(t.shape) == t.ndim == 2
    assert t.size(0) == 2
    assert t.element_size() == 4
    assert t.is_contiguous()
    assert isinstance(t, torch.Tensor)
    assert isinstance(t, torch.nn.Parameter) == (state == "parameter")
    assert hash(t) == hash(t)


@pytest.mark.parametrize("state", STATES)
def test_torch_every_refusal_leaves_what_shared_the_bytes_alone(state):
    t = STATES[state]()
    friend = getattr(t, "kept", None), getattr(t, "whole", None), getattr(t, "array", None)
    expected = [None if one is None else one.tolist() for one in friend]
    tenure.dispose(t)
    for attempt in (lambda: t.zero_(), lambda: t.copy_(torch.ones(2, 3))):
        with pytest.raises(tenure.TensorReleased):
            attempt()
    if not (FALLBACK and state == "retained"):  # then the handle still has its own tensor below Python
        with pytest.raises(RuntimeError):  # torch itself refuses, first, to set what requires a gradient
            t.set_()
    assert [None if one is None else one.tolist() for one in friend] == expected


# ------------------------------------------------------------------------------------------------ JAX

JAX = {
    "add": lambda jnp, x: x + 1,
    "reflected": lambda jnp, x: 1 - x,
    "numpy_reflected": lambda jnp, x: __import__("numpy").ones(3) + x,
    "index": lambda jnp, x: x[0],
    "iterate": lambda jnp, x: list(x),
    "float": lambda jnp, x: float(x[0]),
    "bool": lambda jnp, x: bool(x.any()),
    "item": lambda jnp, x: x.item(),
    "tolist": lambda jnp, x: x.tolist(),
    "sum": lambda jnp, x: jnp.sum(x),
    "method_sum": lambda jnp, x: x.sum(),
    "stack": lambda jnp, x: jnp.stack([x, x]),
    "asarray": lambda jnp, x: jnp.asarray(x) + 0,
    "copy": lambda jnp, x: x.copy(),
    "jnp_copy": lambda jnp, x: jnp.copy(x),
    "numpy_asarray": lambda jnp, x: __import__("numpy").asarray(x),
    "numpy_array": lambda jnp, x: __import__("numpy").array(x),
    "numpy_ufunc": lambda jnp, x: __import__("numpy").add(x, 1),
    "dlpack": lambda jnp, x: __import__("numpy").from_dlpack(x),
    "torch_from_dlpack": lambda jnp, x: torch.from_dlpack(x),
    "deepcopy": lambda jnp, x: copy.deepcopy(x),
    "shallow_copy": lambda jnp, x: copy.copy(x),
    "pickle": lambda jnp, x: pickle.dumps(x),
    "memoryview": lambda jnp, x: memoryview(x),
    "device_put": lambda jnp, x: __import__("jax").device_put(x) + 0,
    "jit": lambda jnp, x: __import__("jax").jit(lambda y: y * 2)(x),
    "closed_over_by_jit": lambda jnp, x: __import__("jax").jit(lambda y: y * x)(jnp.ones(3)),
    "grad": lambda jnp, x: __import__("jax").grad(lambda y: (y * y).sum())(x),
    "vmap": lambda jnp, x: __import__("jax").vmap(lambda y: y * 2)(x),
    "scan": lambda jnp, x: __import__("jax").lax.scan(lambda c, y: (c + y, y), 0.0, x),
    "at_set": lambda jnp, x: x.at[0].set(1.0),
    "reshape": lambda jnp, x: x.reshape(3, 1),
    "astype": lambda jnp, x: x.astype("float16"),
    "contains": lambda jnp, x: 1.0 in x,
    "equal": lambda jnp, x: x == x,
    "block_until_ready": lambda jnp, x: x.block_until_ready(),
    "device_get": lambda jnp, x: __import__("jax").device_get(x),
    "addressable_data": lambda jnp, x: x.addressable_data(0) + 0,
    "shard_data": lambda jnp, x: x.addressable_shards[0].data + 0,
    "pointer": lambda jnp, x: x.unsafe_buffer_pointer(),
    "delete_again": lambda jnp, x: (x.delete(), x + 1),
    "pure_callback": lambda jnp, x: __import__("jax").pure_callback(
        lambda y: y, __import__("jax").ShapeDtypeStruct((3,), "float32"), x
    ),
}


def _try_jax(access):
    import jax.numpy as jnp

    x = jnp.full(3, 7.5)
    tenure.dispose(x)
    return access(jnp, x)


def _prepare_jax():
    import jax  # noqa: F401 - loaded before the forks; its threads start after them


CASES["jax"] = {name: functools.partial(_try_jax, access) for name, access in JAX.items()}
PREPARE["jax"] = _prepare_jax


@NOTHING_NATIVE
@pytest.mark.parametrize("name", JAX)
def test_jax_data_of_an_ended_array_is_out_of_reach(outcomes, jax, name):
    outcome = outcomes(__file__, "jax")[name]
    assert outcome["kind"] == "error", outcome
    # JAX's C++ speaks for itself where it is asked directly.
    told = (
        outcome["ours"] or "deleted" in outcome["text"] or (name == "memoryview" and outcome["type"] == "BufferError")
    )
    assert told, outcome


def test_jax_metadata_of_an_ended_array_stays(jax):
    x = jax.numpy.full((2, 3), 7.5)
    tenure.dispose(x)
    assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes, len(x)) == ((2, 3), "float32", 2, 6, 24, 2)
    assert x.is_deleted()
    assert tenure.info(x).device == "cpu:0"


# ------------------------------------------------------------------------------------------------ TensorFlow

TENSORFLOW = {
    "add": lambda tf, v: v + 1,
    "reflected": lambda tf, v: 1 - v,
    "numpy_reflected": lambda tf, v: __import__("numpy").ones(3, "float32") + v,
    "index": lambda tf, v: v[0],
    "iterate": lambda tf, v: list(v),
    "bool": lambda tf, v: bool(v),
    "float": lambda tf, v: float(v),
    "numpy": lambda tf, v: v.numpy(),
    "numpy_asarray": lambda tf, v: __import__("numpy").asarray(v),
    "numpy_ufunc": lambda tf, v: __import__("numpy").add(v, 1),
    "value": lambda tf, v: v.value(),
    "read_value": lambda tf, v: v.read_value(),
    "reduce_sum": lambda tf, v: tf.reduce_sum(v),
    "convert": lambda tf, v: tf.convert_to_tensor(v),
    "identity": lambda tf, v: tf.identity(v),
    "constant": lambda tf, v: tf.constant(v),
    "stack": lambda tf, v: tf.stack([v, v]),
    "gather": lambda tf, v: tf.gather(v, [0]),
    "cast": lambda tf, v: tf.cast(v, "float64"),
    "matmul": lambda tf, v: tf.tensordot(v, v, 1),
    "equal": lambda tf, v: v == tf.ones(3),
    "assign": lambda tf, v: v.assign([1.0, 2.0, 3.0]),
    "assign_add": lambda tf, v: v.assign_add([1.0, 2.0, 3.0]),
    "assign_sub": lambda tf, v: v.assign_sub([1.0, 2.0, 3.0]),
    "scatter": lambda tf, v: v.scatter_nd_update([[0]], [1.0]),
    "assigned_to_another": lambda tf, v: tf.Variable([0.0, 0.0, 0.0]).assign(v),
    "initial_value": lambda tf, v: tf.Variable(v),
    "deepcopy": lambda tf, v: copy.deepcopy(v),
    "shallow_copy": lambda tf, v: copy.copy(v) + 1,
    "pickle": lambda tf, v: pickle.dumps(v),
    "raw_read": lambda tf, v: tf.raw_ops.ReadVariableOp(resource=v.handle, dtype=tf.float32),
    "raw_assign": lambda tf, v: (tf.raw_ops.AssignVariableOp(resource=v.handle, value=tf.ones(3)), v.numpy()),
    "raw_assign_then_read": lambda tf, v: (tf.raw_ops.AssignVariableOp(resource=v.handle, value=tf.ones(3)), v + 1),
    "shape_op": lambda tf, v: tf.shape(v),
    "in_function": lambda tf, v: tf.function(lambda: v * 2)(),
    "function_argument": lambda tf, v: tf.function(lambda x: x * 2)(v),
    "traced_before": lambda tf, v: TRACED(),
    "tape": lambda tf, v: _gradient(tf, v),
    "optimizer": lambda tf, v: tf.keras.optimizers.SGD().apply_gradients([(tf.ones(3), v)]),
    "checkpoint": lambda tf, v: tf.train.Checkpoint(v=v).write("/tmp/tenure-no-such-folder/x"),
    "dataset": lambda tf, v: list(tf.data.Dataset.from_tensor_slices(v)),
    "contains": lambda tf, v: v.ref() in {v.ref()} and v.numpy(),
}


def _gradient(tf, v):
    with tf.GradientTape() as tape:
        y = v * v
    return tape.gradient(y, v)


def _try_tensorflow(access):
    global TRACED
    import tensorflow as tf

    v = tf.Variable([7.5, 7.5, 7.5])
    if access is TENSORFLOW["traced_before"]:
        TRACED = tf.function(lambda: v * 2)
        TRACED()
    tenure.dispose(v)
    return access(tf, v)


def _prepare_tensorflow():
    import tensorflow  # noqa: F401 - loaded before the forks; its threads start after them


CASES["tensorflow"] = {name: functools.partial(_try_tensorflow, access) for name, access in TENSORFLOW.items()}
PREPARE["tensorflow"] = _prepare_tensorflow
# The function's graph has the variable's own handle in it, and keeps the bytes: it goes on, as any other user does.
STILL_RUNS = {"traced_before"}


@NOTHING_NATIVE
@pytest.mark.parametrize("name", TENSORFLOW)
def test_tensorflow_data_of_an_ended_variable_is_out_of_reach(outcomes, tf, name):
    outcome = outcomes(__file__, "tensorflow")[name]
    if name in STILL_RUNS:
        assert "15." in outcome["text"]
        return
    assert outcome["kind"] == "error", outcome
    told = outcome["ours"] or "<released tensorflow" in outcome["text"] or "after it was released" in outcome["text"]
    assert told or outcome["type"] == "TypeError", outcome


def test_tensorflow_metadata_of_an_ended_variable_stays(tf):
    v = tf.Variable([[7.5, 7.5, 7.5]], name="w")
    tenure.dispose(v)
    assert (tuple(v.shape), v.dtype, v.name) == ((1, 3), tf.float32, "w:0")
    assert "CPU:0" in v.device
    assert tenure.info(v).state == "disposed"
