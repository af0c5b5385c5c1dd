"""Optimizers, parameters and state of the oddest kinds; every line of output must be the same under trace."""

import collections
import copy
import pickle
import warnings

import torch
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

warnings.simplefilter("always")
calls = collections.Counter()  # of code that only this program may call


def steps(name, optimizer, times=4):
    for _ in range(times):
        optimizer.step()
    print(name, times)


def parameter(**kwargs):
    made = torch.nn.Parameter(torch.ones(3), **kwargs)
    made.grad = torch.ones(3)
    return made


class Plain(Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None:
                    each.add_(each.grad, alpha=-group["lr"])
                self.note(each)

    def note(self, each):
        pass


# State that is not a dict of dicts.


class Tensors(Plain):
    def note(self, each):
        self.state["k"] = self.state.get("k", torch.zeros(1)) + 1


class Numbers(Plain):
    def note(self, each):
        self.state["step"] = self.state.get("step", 0) + 1


class Lists(Plain):
    def note(self, each):
        self.state[each] = [torch.zeros_like(each), (torch.ones(2), {"inner": [torch.ones(1)]}), 1]


class Cyclic(Plain):
    def note(self, each):
        self.state["self"] = own = {}
        own["self"] = own
        own["list"] = [own]


class Raising:
    def __getattr__(self, name):
        calls[f"getattr {name}"] += 1
        raise RuntimeError(name)

    def __len__(self):
        calls["len"] += 1
        raise RuntimeError("len")

    def __iter__(self):
        calls["iter"] += 1
        raise RuntimeError("iter")

    __eq__ = __bool__ = __repr__ = __len__
    __hash__ = None

    @property
    def __class__(self):
        calls["class"] += 1
        return torch.Tensor


class Objects(Plain):
    def note(self, each):
        self.state["odd"] = Raising()
        self.state[each] = {"odd": Raising(), "moment": torch.zeros(3)}


class Mapping(collections.UserDict):
    pass


class Strange(dict):
    def values(self):
        calls["values"] += 1
        raise RuntimeError("values")

    items = keys = __iter__ = __len__ = values


class Replaced(Plain):
    def note(self, each):
        self.state = Mapping({each: {"m": torch.zeros(3)}})


class Stranger(Plain):
    def note(self, each):
        self.state = Strange({each: Strange({"m": torch.zeros(3)})})


class NoState(Plain):
    def note(self, each):
        self.__dict__.pop("state", None)


class NoGroups(Plain):
    def step(self, closure=None):
        self.param_groups = None


for kind in (Tensors, Numbers, Lists, Cyclic, Objects, Replaced, Stranger, NoState, NoGroups):
    steps(kind.__name__, kind([parameter()]), 1 if kind is NoGroups else 4)


# Optimizers that are not like others.


class Equal(Plain):
    def __eq__(self, other):
        calls["eq"] += 1
        return True

    __hash__ = None


class Falsy(Plain):
    def __bool__(self):
        calls["bool"] += 1
        return False

    def __len__(self):
        calls["len"] += 1
        return 0


class Guarded(Plain):
    def __getattribute__(self, name):
        if name in ("__dict__", "_optimizer_step_pre_hooks_x"):
            calls[name] += 1
        return super().__getattribute__(name)


class Computed(Plain):
    @property
    def state(self):
        calls["state"] += 1
        return self.__dict__.setdefault("own", collections.defaultdict(dict))

    @state.setter
    def state(self, value):
        self.__dict__["own"] = value


class Wrapping(Optimizer):
    """As accelerate and DeepSpeed do: another's optimizer inside."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def param_groups(self):
        calls["groups"] += 1
        return self.inner.param_groups

    @property
    def state(self):
        calls["state"] += 1
        return self.inner.state

    def step(self, closure=None):
        return self.inner.step(closure)


for kind in (Equal, Falsy, Guarded, Computed):
    steps(kind.__name__, kind([parameter()]))
steps("Wrapping", Wrapping(torch.optim.Adam([parameter()])))


class Interrupted(torch.optim.SGD):
    def step(self, closure=None):
        raise KeyError("mine")


for _ in range(3):
    try:
        Interrupted([parameter()]).step()
    except KeyError as error:
        print("KeyError", error, error.__context__)


class OddHook:
    __module__ = None

    def __call__(self, *args):
        calls["hook"] += 1


optimizer = torch.optim.SGD([parameter()], lr=0.1, momentum=0.9)
optimizer.register_step_post_hook(OddHook())
steps("OddHook", optimizer)
calls.pop("hook")
optimizer = copy.deepcopy(torch.optim.AdamW([parameter()]))
steps("copied", optimizer)
optimizer = pickle.loads(pickle.dumps(optimizer))
steps("pickled", optimizer)
p = parameter()
lbfgs = torch.optim.LBFGS([p], max_iter=3)


def closure():
    lbfgs.zero_grad()
    loss = (p - 2).square().sum()
    loss.backward()
    return loss


print("LBFGS", [round(lbfgs.step(closure).item(), 4) for _ in range(3)])
sparse = torch.nn.Embedding(8, 3, sparse=True)
optimizer = torch.optim.SparseAdam(sparse.parameters())
sparse(torch.tensor([1, 2])).sum().backward()
steps("sparse", optimizer)
optimizer = torch.optim.SGD([parameter()], lr=0.1)
optimizer.param_groups[0]["params"] = (parameter(), parameter())
steps("tuple", optimizer)
steps("lazy", torch.optim.SGD(torch.nn.LazyLinear(3).parameters(), lr=0.1))
meta = torch.nn.Linear(3, 3, device="meta")
meta(torch.ones(2, 3, device="meta")).sum().backward()
steps("meta", torch.optim.Adam(meta.parameters()))
cow = parameter()
lazy = torch._lazy_clone(cow.detach())
steps("lazy copy", torch.optim.SGD([cow], lr=0.0, momentum=0.9), 0)
moments = torch.optim.SGD([parameter()], lr=0.1, momentum=0.9)
moments.state["lazy"] = {"copy": lazy}
steps("state of lazy copies", moments)
print("still lazy", torch._C._is_cow_tensor(lazy))
nested = torch.nn.Parameter(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged))
nested.grad = torch.ones_like(nested)
steps("nested", torch.optim.SGD([nested], lr=0.1))
emptied = parameter()
optimizer = torch.optim.SGD([emptied, parameter()], lr=0.1)
emptied.grad = None
emptied.untyped_storage().resize_(0)  # as FSDP does between steps
steps("emptied", optimizer)


# Parameters of the user's classes.


class Wrapper(torch.Tensor):
    """Holds another tensor; it has no storage."""

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.size(), dtype=x.dtype, requires_grad=x.requires_grad)

    def __init__(self, x):
        self.x = x

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        calls["dispatch"] += 1
        inner = tree_map(lambda t: t.x if isinstance(t, Wrapper) else t, (args, kwargs or {}))
        result = func(*inner[0], **inner[1])
        if func.__name__.split(".")[0].endswith("_"):
            return args[0]
        return tree_map(lambda t: Wrapper(t) if isinstance(t, torch.Tensor) else t, result)


class Asked(torch.Tensor):
    """Counts what it is asked."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls[func.__name__] += 1
        return super().__torch_function__(func, types, args, kwargs or {})

    def __eq__(self, other):
        calls["eq"] += 1
        raise RuntimeError("eq")

    __hash__ = torch.Tensor.__hash__


class Shadowed(torch.Tensor):
    @property
    def grad(self):
        calls["grad"] += 1
        raise RuntimeError("grad")

    @property
    def layout(self):
        calls["layout"] += 1
        raise RuntimeError("layout")

    device = layout

    def untyped_storage(self):
        calls["untyped_storage"] += 1
        raise RuntimeError("storage")


class Slots(torch.Tensor):
    __slots__ = ("extra",)


wrapped = torch.nn.Parameter(Wrapper(torch.ones(3)))
wrapped.grad = Wrapper(torch.ones(3))
steps("Wrapper", torch.optim.SGD([wrapped], lr=0.1))
for kind in (Asked, Slots):
    own = torch.ones(3).as_subclass(kind).requires_grad_()
    own.grad = torch.ones(3)
    steps(kind.__name__, torch.optim.SGD([own], lr=0.1))
shadowed = torch.ones(3).as_subclass(Shadowed)
optimizer = Numbers([parameter()])
optimizer.state["shadowed"] = {"x": shadowed, "asked": [torch.ones(2).as_subclass(Asked)]}
optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
steps("Shadowed", optimizer)


class Watching(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        calls[f"mode {func.__name__}"] += 1
        return func(*args, **kwargs or {})


with Watching():
    steps("under a mode", torch.optim.SGD([parameter()], lr=0.1, momentum=0.9))
with torch._subclasses.fake_tensor.FakeTensorMode():
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    steps("fake", optimizer)
several = [torch.optim.SGD([parameter()], lr=0.1), torch.optim.Adam([parameter()])]
for _ in range(3):
    for one in several:
        one.step()
print(sorted(calls.items()))
