"""PyTorch's world: views, in-place operations, autograd, exports, modules and optimizers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from world import Slot, World, Wrong
from world import run as run_both

import tenure
from tenure.frameworks.torch import sealed

SHAPES = [(2, 3), (3,), (), (2, 3), (4, 1), (0, 3)]
DTYPES = [torch.float32, torch.float32, torch.float64, torch.int64]


class Cube(torch.autograd.Function):
    """Saves its input and its output itself."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        out = x * x * x
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, out = ctx.saved_tensors
        return 3 * x * x * grad + 0 * out


class Model:
    """A module and its optimizer."""

    def __init__(self, k: int) -> None:
        self.module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        with torch.no_grad():
            for at, parameter in enumerate(self.module.parameters()):
                parameter.copy_(torch.arange(parameter.numel()).reshape(parameter.shape) * 0.1 + at)
        kind = torch.optim.Adam if k % 2 else torch.optim.SGD
        options = {} if k % 2 else {"momentum": 0.9}
        self.optimizer = kind(self.module.parameters(), lr=0.01, **options)
        self.buffers: tuple[int, ...] = ()
        self.ended = False
        self.owner: Any = None

    def tensors(self) -> list[Any]:
        return [*self.module.parameters(), *self.module.buffers()]

    def forward(self, x: Any) -> Any:
        return self.module(torch.arange(6.0).reshape(2, 3) + x.float().mean())

    def step(self, x: Any, k: int) -> Any:
        loss = self.forward(x).pow(2).sum()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=bool(k % 2))
        return loss

    def forget(self) -> None:
        """Drop every name of the parameters and buffers, as if they were ended; keep the optimizer's state."""
        for module in self.module:
            for part in (module._parameters, module._buffers):
                for key in part:
                    part[key] = None
        state = [dict(values) for values in self.optimizer.state.values()]
        self.optimizer.state.clear()
        self.optimizer.param_groups.clear()
        self.kept = state


class TorchWorld(World):
    def __init__(self, *, real: bool) -> None:
        super().__init__(real=real)
        self.refs: list[tuple[int, Any, int, int]] = []
        self.loose: set[int] = set()  # buffers of handles with native weak references
        self.by_function: set[int] = set()  # buffers of handles that a function in Python saved
        self.models: list[Model] = []
        self.hooked: list[bytes] = []

    # ------------------------------------------------------------ the framework's part

    def make(self, i, j, k):
        shape, dtype = SHAPES[i % len(SHAPES)], DTYPES[j % len(DTYPES)]
        count = int(np.prod(shape))
        x = (torch.arange(count, dtype=torch.float64).reshape(shape) * 0.37 + (i + j + k) * 0.11).to(dtype)
        return x.requires_grad_() if x.is_floating_point() and k % 2 else x

    def unary(self, x, k):
        return [
            lambda: x * 2, lambda: x + 1, lambda: x.clone(), lambda: x.exp(), lambda: x.sum(), lambda: x.contiguous(),
            lambda: x.float().softmax(-1) if x.dim() else x.float().sigmoid(), lambda: torch.relu(x),
            lambda: x.to(x.dtype), lambda: x.double(), lambda: x.cumsum(-1) if x.dim() else x.abs(),
        ][k % 11]()  # fmt: skip

    def binary(self, x, y, k):
        return [
            lambda: x * y.float().mean(), lambda: x + y if x.shape == y.shape else x - y.sum(),
            lambda: x.reshape(-1, 1).float() @ y.reshape(1, -1).float(), lambda: torch.cat([x.reshape(-1), y.reshape(-1)]),
            lambda: torch.where(x > 0, x, y.sum().to(x.dtype)), lambda: torch.stack([x.sum(), y.sum().to(x.dtype)]),
        ][k % 6]()  # fmt: skip

    def meta(self, thing):
        return (tuple(thing.shape), str(thing.dtype), str(thing.device), thing.stride(), thing.numel(), thing.dim())

    def digest(self, slot):
        thing = self.use(slot)
        if isinstance(thing, tenure.Owned):
            thing = thing.value
        if isinstance(thing, torch.Tensor):
            data = thing.detach().numpy().tobytes()
            return data + f"{thing.shape} {thing.dtype} {thing.requires_grad} {thing._version}".encode()
        if isinstance(thing, torch.UntypedStorage):
            return bytes(thing.tolist())
        return np.asarray(thing).tobytes()

    def track(self, slot):
        if slot.export or not isinstance(slot.thing, torch.Tensor):
            return ()
        return (self.number(slot.thing),)

    def number(self, tensor):
        storage = tensor.untyped_storage()
        for at, (cdata, *_) in enumerate(self.refs):
            if cdata == storage._cdata:
                return at
        self.refs.append((storage._cdata, StorageWeakRef(storage), storage.nbytes(), storage.data_ptr()))
        return len(self.refs) - 1

    def freed(self):
        """Storages tell. One made from another's memory (DLPack) frees nothing while that other lives."""
        alive = [(start, start + size) for _, ref, size, start in self.refs if not ref.expired()]
        return [
            ref.expired() and not any(start < last and first < start + size for first, last in alive)
            for _, ref, size, start in self.refs
        ]

    def memories(self, buffers):
        """A DLPack alias has a storage of its own, on the same bytes or some of them."""
        found = []
        for buffer in buffers:
            _, _, size, start = self.refs[buffer]
            same = [one for one in found if size and start < one[1] and one[0] < start + size]
            found = [one for one in found if one not in same]
            first, last = min([start, *(one[0] for one in same)]), max([start + size, *(one[1] for one in same)])
            found.append((first, last, [member for one in same for member in one[2]] + [buffer]))
        return [(last - first, members) for first, last, members in found]

    def expired(self):
        # What the graph of a handle holds that could only be sealed, is held as long as the handle is.
        if any(slot.ended and self.sticky(slot) for slot in self.slots):
            return ["?"]
        return [int(ref.expired()) for _, ref, _, _ in self.refs]

    def nbytes(self, buffer):
        return self.refs[buffer][2]

    def sticky(self, slot):
        return any(buffer in self.loose for buffer in slot.buffers)

    def unforeseen(self, slot):
        # A known limit: `remains` may say held where `dispose` frees (a tensor's own graph, memory lent to NumPy).
        # That it never foretells more than is freed is checked.
        return True

    def observe(self):
        models = [model for model in self.models if not model.ended]
        parts = [t.detach().reshape(-1).numpy().tobytes().hex()[:60] for model in models for t in model.tensors()]
        return f"{super().observe()} models={parts} hooks={self.hooked}"

    def accesses(self):
        ones = torch.ones(3)
        return [
            ("x + 1", lambda x: x + 1), ("x[...]", lambda x: x[...]), ("numpy()", lambda x: x.numpy()),
            ("asarray", np.asarray), ("tolist", lambda x: x.tolist()), ("deepcopy", copy.deepcopy),
            ("pickle", pickle.dumps), ("sum", lambda x: x.sum()), ("torch.cat", lambda x: torch.cat([ones, x])),
            ("add_", lambda x: x.add_(1)), ("copy_", lambda x: ones.copy_(x)), ("out=", lambda x: torch.exp(ones, out=x)),
            ("dlpack", torch.from_dlpack), ("np dlpack", np.from_dlpack), ("detach", lambda x: x.detach()),
            ("data_ptr", lambda x: x.data_ptr()), ("storage", lambda x: x.untyped_storage()), ("item", lambda x: x.item()),
            ("==", lambda x: x == 1), ("bool", bool), ("aten", lambda x: torch.ops.aten.mul(x, 2)), ("grad", lambda x: x.grad),
            ("data", lambda x: x.data), ("backward", lambda x: x.backward()), ("np.add", lambda x: np.add(x, 1)),
            ("Parameter", torch.nn.Parameter), ("foreach", lambda x: torch._foreach_add([x], 1)), ("len", len),
            ("view", lambda x: x.view(-1)), ("setitem", lambda x: x.__setitem__(..., 0)), ("torch.tensor", torch.tensor),
            ("where", lambda x: torch.where(ones > 0, ones, x)), ("_base", lambda x: x._base), ("T", lambda x: x.mT),
        ]  # fmt: skip

    def must_be_ended(self, slot, k):
        if (
            self.sticky(slot)
            and sealed.handles() is None
            and self.accesses()[k % len(self.accesses())][0] == "torch.tensor"
        ):
            k += 1  # where a handle could only be sealed, torch.tensor(x) goes past the seal
        super().must_be_ended(slot, k)

    # ------------------------------------------------------------ steps of its own

    def tensor_slots(self):
        return [slot for slot in self.live() if slot.owned is None]

    def differentiable(self):
        return [slot for slot in self.tensor_slots() if slot.thing.requires_grad]

    def do_view(self, i, j, k):
        x = self.pick(i)
        if x is None:
            return False
        t = self.use(x)
        views = [
            lambda: t[:1] if t.dim() else t[None], lambda: t.T if t.dim() == 2 else t.unsqueeze(0), lambda: t.reshape(-1),
            lambda: t.expand(2, *t.shape), lambda: t.detach(), lambda: t.view(t.shape), lambda: t[..., :1] if t.dim() else t[()],
            lambda: t.narrow(0, 0, 1), lambda: t.view(torch.int64) if t.dtype == torch.float64 else t.squeeze(), lambda: t.data,
            lambda: t.as_strided((1,), (1,)), lambda: t.alias() if hasattr(t, "alias") else torch.ops.aten.alias(t),
        ]  # fmt: skip
        result = self.attempt(views[k % len(views)])
        if result is not None:
            self.name(result)

    def do_inplace(self, i, j, k):
        x, y = self.pick(i), self.pick(j)
        if x is None:
            return False
        t, other = self.use(x), self.use(y)

        def change():
            if k % 5 == 0:
                t.add_(1)
            elif k % 5 == 1:
                t.mul_(2)
            elif k % 5 == 2:
                t.copy_(other)
            elif k % 5 == 3:
                t[..., :1] = other.sum() if t.dim() else 0
            else:
                t.zero_()

        with torch.set_grad_enabled(bool(k % 3)):
            self.attempt(change)

    def do_backward(self, i, j, k):
        x = self.pick(i, self.differentiable())
        if x is None:
            return False
        self.attempt(lambda: x.thing.double().sum().backward(retain_graph=bool(k % 2), create_graph=k % 8 == 7))

    def do_grad(self, i, j, k):
        x, y = self.pick(i, self.differentiable()), self.pick(j, self.differentiable())
        if x is None:
            return False
        made = self.attempt(
            lambda: torch.autograd.grad(
                x.thing.double().sum(), [y.thing], allow_unused=True, retain_graph=bool(k % 2), create_graph=k % 4 == 3
            )
        )
        if made is not None and made[0] is not None:
            self.name(made[0])

    def do_get_grad(self, i, j, k):
        x = self.pick(i, [slot for slot in self.differentiable() if slot.thing.is_leaf])
        if x is None:
            return False
        if x.thing.grad is not None:
            self.fetch(lambda: x.thing.grad, k)

    def do_zero_grad(self, i, j, k):
        x = self.pick(i, [slot for slot in self.differentiable() if slot.thing.is_leaf])
        if x is None:
            return False
        if k % 2 or x.thing.grad is None:
            x.thing.grad = None
        else:
            self.attempt(lambda: x.thing.grad.zero_())

    def do_retain_grad(self, i, j, k):
        found = [slot for slot in self.differentiable() if not slot.thing.is_leaf]
        # What a function in Python saved and torch refers to weakly cannot be ended; tests/lifetime/test_saved.py.
        x = self.pick(i, [slot for slot in found if not self.by_function.intersection(slot.buffers)])
        if x is None:
            return False
        x.thing.retain_grad()
        self.loose.update(x.buffers)

    def do_custom(self, i, j, k):
        x = self.pick(i, [slot for slot in self.differentiable() if not self.sticky(slot)])
        if x is None:
            return False
        self.by_function.update(x.buffers)
        result = self.attempt(Cube.apply, x.thing)
        if result is not None:
            self.name(result)

    def do_hook(self, i, j, k):
        x = self.pick(i, self.differentiable())
        if x is None:
            return False
        seen = self.hooked
        # torch 2.13 itself crashes in register_hook of a view whose base was changed in place without autograd,
        # unless its grad_fn was asked for since.
        _ = x.thing.grad_fn
        x.thing.register_hook(lambda grad: seen.append(repr(grad.detach().reshape(-1)[:3].tolist())))

    def do_export(self, i, j, k):
        x = self.pick(i, self.tensor_slots())
        if x is None:
            return False
        t = x.thing
        if k % 5 in (0, 1):
            made = self.attempt(lambda: t.detach().numpy() if k % 2 else np.asarray(t))
        elif k % 5 == 2:
            made = self.attempt(lambda: np.from_dlpack(t.detach()))
        elif k % 5 == 3:
            made = t.untyped_storage()
        else:
            made = self.attempt(torch.from_dlpack, t)
            if made is not None:
                self.name(made)
            return None
        if made is not None:
            export = self.name(made, export=True)
            if k % 5 in (0, 1):  # NumPy holds the memory through a torch handle of its own
                export.birth.owner, export.buffers = self.current(), x.buffers

    def do_base(self, i, j, k):
        x = self.pick(i, [slot for slot in self.tensor_slots() if slot.thing._is_view()])
        if x is None:
            return False
        self.fetch(lambda: x.thing._base, k)

    def fetch(self, get, k):
        """Name what torch kept: whether a handle is born or found again is torch's business, so say who owns it."""
        slot = self.name(get())
        slot.birth.owner = self.current() if k % 2 else None
        if self.real:
            tenure.keep(slot.thing, forever=True)
            if k % 2 and self.stack:
                tenure.adopt(slot.thing)

    def do_model(self, i, j, k):
        if len(self.models) > 1:
            return False
        model = Model(k)
        model.buffers = tuple(map(self.number, model.tensors()))
        self.models.append(model)

    def pick_model(self, i):
        return self.models[i % len(self.models)] if self.models else None

    def on_model(self, model, function, *args):
        """An ended model refuses; the twin has nothing left to ask."""
        if not model.ended:
            return self.attempt(function, *args)
        if self.real:
            try:
                function(*args)
            except tenure.TensorReleased:
                return None
            raise Wrong("an ended model was used, and nothing was said")
        return None

    def do_train(self, i, j, k):
        model, x = self.pick_model(i), self.pick(j)
        if model is None or x is None:
            return False
        loss = self.on_model(model, model.step, self.use(x), k)
        if loss is not None:
            self.name(loss)

    def do_forward(self, i, j, k):
        model, x = self.pick_model(i), self.pick(j)
        if model is None or x is None:
            return False
        model.module.train(bool(k % 2))
        out = self.on_model(model, model.forward, self.use(x))
        if out is not None:
            self.name(out)

    def do_dispose_model(self, i, j, k):
        model = self.pick_model(i)
        if model is None:
            return False
        fresh = not model.ended
        model.ended = True
        stand_in = [Slot(-1, None, None, buffers=model.buffers)] if fresh else []
        if self.real:
            self.judge(stand_in, tenure.dispose(model.module), already=0 if fresh else 7)
        elif fresh:
            model.forget()

    def do_adopt_model(self, i, j, k):
        model = self.pick_model(i)
        if model is None or not self.stack or model.ended:
            return False
        if self.real:
            tenure.adopt(model.module)
        model.owner = self.current()

    def end_others(self, level):
        stand_ins, before = [], 0
        for model in self.models:
            if model.owner is not level:
                continue
            model.owner = None
            if model.ended:
                before += 7
                continue
            model.ended = True
            stand_ins.append(Slot(-1, None, None, buffers=model.buffers))
            if not self.real:
                model.forget()
        return stand_ins, before

    def do_cap(self, i, j, k):
        """Over the cap: refused at the next birth, or when the scope is left."""
        if not self.real:
            return
        made = []
        try:
            with tenure.scope("capped", cap=100):
                made.append(torch.ones(10))
                made.append(torch.ones(10))
                made.append(torch.ones(10))
                made.append(torch.ones(10))
        except tenure.CapExceeded:
            for handle in made:
                if "released" not in repr(handle):
                    raise Wrong("a capped scope left a tensor alive") from None
            return
        raise Wrong("a cap was passed over")

    def do_race(self, i, j, k):
        """Dispose under a running operation of another thread: right, or refused."""
        if k % 8:
            return False
        if not self.real:
            return None
        import threading

        x = torch.full((200, 200), 0.5)
        want = x @ x
        results: list[Any] = []
        started = threading.Event()

        def work():
            started.set()
            try:
                for _ in range(50):
                    results.append(torch.equal(x @ x, want))
            except tenure.TensorReleased:
                results.append(True)

        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        tenure.dispose(x)
        thread.join()
        if not all(results):
            raise Wrong("a product computed in another thread changed when its operand was disposed")

    def finish(self):
        super().finish()
        grads = []
        for slot in self.differentiable():
            if slot.thing.is_leaf and slot.thing.grad is not None:
                grads.append((slot.number, slot.thing.grad.detach().reshape(-1).numpy().tobytes().hex()))
        for model in self.models:
            if not model.ended:
                for p in model.module.parameters():
                    grads.append(None if p.grad is None else p.grad.detach().reshape(-1).numpy().tobytes().hex())
        self.log.append(f"gradients {grads}")


def warm_up() -> None:
    run([[name[3:], 1, 2, 3] for name in dir(TorchWorld) if name.startswith("do_")])


def run(program: list[Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    return run_both(TorchWorld, program)
