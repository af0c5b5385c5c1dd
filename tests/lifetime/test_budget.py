"""What a capped scope holds, kept as it changes, against the plain sum over all its tensors."""

import gc
import random

import pytest

import tenure
from tenure.lifetime import dispose
from tenure.lifetime.budget import _SELDOM, Budget

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")


@pytest.fixture(autouse=True)
def small_heap():
    """What ends a tensor walks over the heap: over what the test makes, not over all that is loaded."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Play:
    """Random things that happen to the tensors of a scope."""

    def __init__(self, seed, scope):
        self.rng, self.scope = random.Random(seed), scope
        self.have, self.away = [], [torch.ones(self.rng.randrange(1, 50)) for _ in range(8)]

    def step(self):
        kinds = ["make"] * 4 + ["drop"] * 3 + ["view", "alias", "array", "slice", "graph"]
        kinds += ["dispose", "keep", "adopt", "inner", "loop", "sparse", "swap"]
        getattr(self, self.rng.choice(kinds))()

    def one(self):
        return self.rng.choice(self.have) if self.have else self.make()

    def make(self):
        self.have.append(torch.ones(self.rng.randrange(1, 60)))
        return self.have[-1]

    def drop(self):
        if self.have:
            del self.have[self.rng.randrange(len(self.have))]

    def usable(self, x):
        return isinstance(x, torch.Tensor) and tenure.info(x).state == "live" and x.layout == torch.strided and x.dim()

    def view(self):
        x = self.one()
        if self.usable(x):
            self.have.append(x[: self.rng.randrange(1, 60)])

    def alias(self):
        x = self.one()
        if self.usable(x):
            self.have.append(torch.from_dlpack(x.detach()))

    def array(self):
        x = self.one()
        if self.usable(x):
            self.have.append(torch.from_numpy(x.detach().numpy()[: self.rng.randrange(1, 9)]))

    def slice(self):
        x = np.ones(60, "float32")
        self.have += [torch.from_numpy(x[:40]), torch.from_numpy(x[20:])]

    def graph(self):
        x = torch.ones(self.rng.randrange(1, 9), requires_grad=True)
        self.have.append((x * 2).exp())  # the graph keeps tensors without a handle

    def dispose(self):
        tenure.dispose(self.one())

    def keep(self):
        self.away.append(self.scope.keep(self.one()))

    def adopt(self):
        tenure.adopt(self.rng.choice(self.away))

    def inner(self):
        with tenure.scope("inner"):
            x = [self.make() for _ in range(3)]
            tenure.keep(x[:2])  # which this one gets

    def loop(self):
        for _ in range(self.rng.randrange(40)):
            torch.ones(3) + 1

    def sparse(self):
        self.have.append(torch.eye(self.rng.randrange(1, 9)).to_sparse())

    def swap(self):
        if self.rng.random() < 0.3:
            self.have.clear()


def plain(scope):
    return sum(part.nbytes for part in dispose.parts(scope.tensors()))


def played(seed, steps):
    with tenure.scope("played") as scope:
        budgets = {cap: Budget(scope._region, cap) for cap in (1, 200, 800, 2000, 5000, 1 << 40)}
        play = Play(seed, scope)
        for step in range(steps):
            play.step()
            held = plain(scope)
            for cap, budget in budgets.items():
                if step % 3 == 0 or cap == 800:  # some are asked seldom
                    assert budget.is_over() == (held > cap), (seed, step, cap, held)
                    assert budget._total >= held
        play.have.clear()
        play.away.clear()


def test_it_says_what_the_plain_sum_says():
    for seed in range(25):
        played(seed, 60)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_it_says_what_the_plain_sum_says_for_long():
    for seed in range(1000, 3000):
        played(seed, 200)


def test_what_grows_where_it_is_is_seen_soon_and_what_shrinks_at_once():
    with tenure.scope() as scope:
        kept = [torch.ones(10) for _ in range(5)]
        budget = Budget(scope._region, 1000)
        assert not budget.is_over()
        kept[0].resize_(1000)
        births = 0
        while not budget.is_over():
            kept[1] + 1
            births += 1
        assert births <= _SELDOM + len(kept) + 2
        kept[0].untyped_storage().resize_(0)
        kept[0].resize_(0)
        assert budget.is_over() is (plain(scope) > 1000) is False
        kept[1].data = torch.ones(2000)  # another's memory, whose handle is gone
        for _ in range(_SELDOM + len(kept) + 2):
            kept[2] + 1
            budget.is_over()
        assert budget.is_over()


def test_each_tensor_is_looked_at_a_few_times(monkeypatch):
    looked = 0

    def parts(handles, original=dispose.parts):
        nonlocal looked
        handles = list(handles)
        looked += len(handles)
        return original(handles)

    monkeypatch.setattr(dispose, "parts", parts)
    with tenure.scope() as scope:
        budget = Budget(scope._region, 1 << 40)
        kept = []
        for _ in range(3000):
            kept.append(torch.ones(1))
            assert not budget.is_over()
        assert looked < 5 * 3000
        looked = 0
        for _ in range(3000):  # of those that die at once, one is seen at a time
            torch.ones(1)
            assert not budget.is_over()
        assert looked < 3 * 3000


def test_arrays_that_jax_deleted_count_for_nothing(jax):
    with tenure.scope() as scope:
        kept = [jax.numpy.ones(10) * 2 for _ in range(5)]
        budget = Budget(scope._region, 150)
        assert budget.is_over()
        kept[0].delete()
        jax.jit(lambda x: x + 1, donate_argnums=0)(kept[1])
        assert budget.is_over() is (plain(scope) > 150) is False
