"""torch's part of the other random programs."""

import torch
from other_worlds import World
from torch.utils.checkpoint import checkpoint


class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate):
        ctx.save_for_backward(x)
        ctx.gate = gate
        ctx.parts = {"scale": [x.detach() * 0.5 + 1], "turn": lambda grad, shift=x.detach() * 0.1: grad + shift}
        return x * gate

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.parts["turn"](grad * ctx.gate * ctx.parts["scale"][0]) + 0 * x, None


class Torch(World):
    kinds = (
        "fresh_ones operate operate custom hooked hooked_node packed packed checkpointed reentrant viewed in_place module "
        "backward backward twice exported closure call drop look stacked retained "
        "owned broken scaled"
    ).split()

    def __init__(self, seed, scoped):
        super().__init__(seed, scoped)
        torch.manual_seed(seed)
        self.leaves = [torch.rand(4, 4, requires_grad=True) for _ in range(3)]
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))

    def array(self, value):
        return value if not isinstance(value, torch.Tensor) else value.detach().numpy()

    def fresh(self):
        self.tick()
        return torch.rand(4, 4)

    def fresh_ones(self):
        return [self.fresh()]

    def tensor(self):
        value = self.rng.choice([self.rng.choice(self.leaves), *(self.pick() for _ in range(4))])
        value = value if isinstance(value, torch.Tensor) else torch.from_numpy(value)
        return value if value.shape == (4, 4) else value.reshape(-1)[:1].expand(4, 4)

    def operate(self):
        x, y = self.tensor(), self.tensor()
        made = self.leave(self.rng.choice([torch.add, torch.mul, torch.matmul, torch.maximum])(x, y))
        self.leave(made.detach())
        return [made.tanh()]

    def custom(self):
        return [Gated.apply(self.leave(self.tensor() * 1), self.leave(self.tensor().detach() + 1))]

    def hooked(self):
        y, factor = self.leave(self.tensor() * 2), self.fresh()

        def hook(grad):
            self.tick()
            return grad * factor

        if y.requires_grad:
            y.register_hook(hook)
        return [y.sin()]

    def hooked_node(self):
        y, factors = self.leave(self.tensor() * 2), [self.fresh()]
        if y.requires_grad:
            y.grad_fn.register_hook(lambda into, _: tuple(g if g is None else g * factors[0] for g in into))
        return [y.cos()]

    def packed(self):
        scale = self.fresh() + 1
        x = self.leave(self.tensor() * 1)
        if self.rng.random() < 0.5:
            hooks = (lambda one: (one.detach().clone(), scale)), (lambda pair: pair[0] * pair[1].mean())
        else:
            hooks = (lambda one: one.detach().clone()), (lambda one: one + 0)
        with torch.autograd.graph.saved_tensors_hooks(*hooks):
            return [(x * x).exp().tanh()]

    def checkpointed(self, use_reentrant=False):
        factor = self.fresh()
        x = self.leave(self.tensor() * 1)
        return [checkpoint(lambda a: self.net(a * factor).sin(), x, use_reentrant=use_reentrant)]

    def reentrant(self):
        return self.checkpointed(use_reentrant=True)

    def viewed(self):
        x = self.tensor()
        self.leave(x.view(16))
        return [x[self.rng.randrange(4)], x.t()][: self.rng.randrange(1, 3)]

    def in_place(self):
        x = self.tensor().clone()
        self.leave(x[1:])
        x[self.rng.randrange(4)].mul_(2)
        x.add_(self.fresh())
        return [x]

    def module(self):
        return [self.net(self.leave(self.tensor() + 1))]

    def total(self):
        value = self.tensor()
        return value.sum() if value.requires_grad else (value * self.rng.choice(self.leaves)).sum()

    def backward(self):
        self.total().backward(retain_graph=self.rng.random() < 0.5)
        self.gradients()

    def gradients(self):
        for leaf in (*self.leaves, *self.net.parameters()):
            if leaf.grad is not None:
                self.number(leaf.grad)
            leaf.grad = None

    def twice(self):
        leaf = self.rng.choice(self.leaves)
        (grad,) = torch.autograd.grad(self.total() + leaf.pow(3).sum(), leaf, create_graph=True)
        if self.rng.random() < 0.5:
            return [grad.pow(2)]
        grad.pow(2).sum().backward()
        return self.gradients()

    def exported(self):
        return [self.leave(self.tensor().detach() + 1).numpy()]

    def closure(self):
        inside, more = self.fresh(), [self.fresh()]
        return [lambda: [inside + more[0]]]

    def stacked(self):
        return list(self.leave(torch.stack([self.tensor(), self.tensor()])).unbind())

    def retained(self):
        y = self.leave(self.tensor() * 3)
        if y.requires_grad:
            y.retain_grad()
            (y * y).sum().backward(retain_graph=True)
            self.number(y.grad)
            for leaf in (*self.leaves, *self.net.parameters()):
                leaf.grad = None
        return [y]

    def owned(self):
        x = self.leave(self.hold(self.tensor() * 2))
        return [x * x, x + self.tensor()]

    def broken(self):
        x = self.leave(self.tensor() + 1)
        return [x @ x.reshape(-1)]

    def scaled(self):
        self.tensor().mul_(0.5)  # which a graph may have saved, or which is a leaf


WORLD = Torch
