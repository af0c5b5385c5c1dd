"""What was born in a scope is its own, however many come and go, in whatever order, and whatever runs meanwhile."""

import gc
import os
import random
import subprocess
import sys
import threading
import weakref

import pytest

import tenure

torch = pytest.importorskip("torch")


def test_of_many_births_those_that_live_are_known_in_their_order():
    draws = random.Random(0)
    with tenure.scope() as scope:
        kept = []
        for turn in range(700):
            tensor = torch.ones(1)
            if draws.random() < 0.2:
                kept.append(tensor)
            del tensor
            if turn % 97 == 0:
                assert [id(one) for one in scope.tensors()] == list(map(id, kept))
                del kept[::2]
        assert [id(one) for one in scope.tensors()] == list(map(id, kept))
    assert all(tenure.info(one).state == "disposed" for one in kept)


def test_births_of_scopes_that_take_turns_are_not_mixed_up():
    def makes(count):
        with tenure.scope("inside") as scope:
            kept = []
            for _ in range(count):
                kept.append(torch.ones(2))
                yield len(scope.tensors())
            yield [id(one) for one in scope.tensors()] == list(map(id, kept))

    with tenure.scope() as scope:
        one, other, kept = makes(70), makes(70), []
        for turn in range(1, 71):
            assert next(one) == turn
            kept.append(torch.ones(1))
            assert next(other) == turn
        assert next(one) is next(other) is True
        assert [id(tensor) for tensor in scope.tensors()] == list(map(id, kept))


def test_births_of_threads_that_take_turns_are_not_mixed_up():
    wrong = []
    rounds = 3 if os.environ.get("TENURE_NATIVE") == "0" else 30  # each end searches the heap, in Python half a second

    def work(seed):
        for _ in range(rounds):
            with tenure.scope() as scope:
                kept = [torch.ones(seed) for _ in range(60)]
                if [id(one) for one in scope.tensors()] != list(map(id, kept)):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_last_birth_of_a_thread_that_ended_is_known_to_the_collector():
    born = []
    with tenure.scope() as scope:
        thread = threading.Thread(target=tenure.carry(lambda: born.append(torch.ones(3))))
        thread.start()
        thread.join()
        assert [id(one) for one in scope.tensors()] == [id(born[0])]
        assert any(thing is born[0] for thing in gc.get_objects())


def test_what_a_collection_makes_meanwhile_is_known_too():
    made = []

    class Makes:
        def __init__(self):
            self.itself = self

        def __del__(self):
            made.append(torch.ones(3))

    before = gc.get_threshold()
    gc.set_threshold(5)  # so that one runs wherever one may
    try:
        with tenure.scope() as scope:
            kept = []
            for _ in range(300):
                Makes()
                kept.append(torch.ones(1))
                [[] for _ in range(3)]
            gc.collect()
            found = {id(one) for one in scope.tensors()}
            assert len(made) == 300
            assert found == {id(one) for one in (*kept, *made)}
    finally:
        gc.set_threshold(*before)
    assert all(tenure.info(one).state == "disposed" for one in (*kept, *made))


def test_more_that_live_than_are_looked_at_together():
    with tenure.scope() as scope:
        kept = [torch.ones(1) for _ in range(1000)]
        assert [id(one) for one in scope.tensors()] == list(map(id, kept))
        del kept[::3]
        kept += [torch.ones(1) for _ in range(500)]
    assert all(tenure.info(one).state == "disposed" for one in kept)


def test_a_weak_reference_of_the_users_never_leads_to_another_tensor():
    with tenure.scope():
        refs = []
        for _ in range(3):
            tensors = [torch.ones(1) for _ in range(300)]
            refs += map(weakref.ref, tensors)
            assert all(ref() is tensor for ref, tensor in zip(refs[-300:], tensors, strict=True))
            del tensors
            assert not any(ref() for ref in refs)
        later = [torch.ones(1) for _ in range(900)]
        assert not any(ref() for ref in refs)
        assert len({hash(weakref.ref(tensor)) for tensor in later}) == len(later)


def test_a_subclass_that_is_made_between_two_scopes():
    with tenure.scope():
        torch.ones(1)

    class Mine(torch.Tensor):
        pass

    with tenure.scope():
        one = torch.ones(2).as_subclass(Mine)

    class Others(Mine):
        pass

    with tenure.scope():
        other = torch.ones(2).as_subclass(Others)
    assert tenure.info(one).state == tenure.info(other).state == "disposed"


def test_what_only_autograd_has_is_left_to_it():
    weight = torch.ones(3, requires_grad=True)
    with tenure.scope() as scope:
        loss = (weight * 2).sum()
        loss.backward()
        assert weight.grad is not None  # which makes a handle
        named = weight.grad.clone()
    assert tenure.info(loss).state == tenure.info(named).state == "disposed"
    assert weight.grad.tolist() == [2, 2, 2]
    assert len(scope.remains) == 2


def test_a_gradient_that_has_a_name_is_ended_with_its_scope():
    weight = torch.ones(3, requires_grad=True)
    with tenure.scope():
        (weight * 2).sum().backward()
        mine = weight.grad
    assert tenure.info(mine).state == "disposed"


def test_births_of_many_functions_that_come_and_go_are_told_with_their_lines(tmp_path):
    gone = []
    with tenure.scope() as scope:
        kept = []
        for number in range(1, 1500):  # more than the hook keeps answers for
            made = compile("\n" * (number - 1) + "kept.append(torch.ones(1))", str(tmp_path / "mine.py"), "exec")
            weakref.finalize(made, gone.append, number)
            exec(made, {"kept": kept, "torch": torch})
            del made
        assert [tenure.info(one).born.line for one in kept] == list(range(1, 1500))
        kept.clear()
        assert scope.tensors() == []
    assert len(gone) > 1000


def test_lists_of_an_optimizers_state_are_spared():
    class Keeps(torch.optim.Optimizer):
        def step(self):
            for group in self.param_groups:
                for parameter in group["params"]:
                    self.state[parameter].setdefault("seen", []).append(parameter.grad.clone())

    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = Keeps([weight], {})
    with tenure.scope():
        weight.square().sum().backward()
        optimizer.step()
    assert optimizer.state[weight]["seen"][0].tolist() == [2, 2]


# The first scope of a process learns what this torch does. Nobody else may see how.
FIRST = {
    "saved tensors are counted": """
from torch.utils.checkpoint import checkpoint

def square(x):
    with tenure.scope():
        x.detach().sum().item()
    return x * x

x = torch.ones(3, requires_grad=True)
checkpoint(square, x, use_reentrant=False).sum().backward()
assert x.grad.tolist() == [2, 2, 2]
""",
    "operations are traced": """
from torch.fx.experimental.proxy_tensor import make_fx

def one_more(x):
    with tenure.scope():
        pass
    return x + 1

ops = [node.target for node in make_fx(one_more)(torch.ones(2)).graph.nodes if node.op == "call_function"]
assert ops == [torch.ops.aten.add.Tensor], ops
""",
    "a class is odd, and the next scope sees births all the same": """
class Odd(torch.Tensor):
    pass

Odd.__module__ = None
with tenure.scope() as scope:
    one = torch.ones(2)
    assert len(scope.tensors()) == 1
assert tenure.info(one).state == "disposed"
""",
}


@pytest.mark.parametrize("program", FIRST.values(), ids=FIRST)
def test_the_first_scope_where(program):
    done = subprocess.run([sys.executable, "-c", f"import torch, tenure\n{program}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_scope_that_ends_while_one_of_its_arrays_is_going():
    """JAX lets go of an array's copy on the host, and so runs the user's code, when nothing refers to the array any more."""
    pytest.importorskip("jax")
    program = """
import weakref, jax, numpy as np, tenure
from jax.sharding import Mesh, NamedSharding, PartitionSpec

halves = NamedSharding(Mesh(np.array(jax.devices()), "d"), PartitionSpec("d"))
start = jax.device_put(np.arange(1000.0), halves)
found = []
with tenure.scope() as scope:
    x = start + 1
    np.asarray(x)
    weakref.finalize(x._npy_value, lambda: found.append(scope.end()))
    del x
for _ in range(50):
    start + 1
assert len(found) == 1
"""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_end_of_a_scope_leaves_no_cycle_behind():
    gc.collect()
    gc.disable()
    try:
        kept = [[torch.ones(1)], {"one": [torch.ones(1)]}]
        with tenure.scope():
            kept[0].append(torch.ones(2))
            kept[1]["one"].append(torch.ones(2))
        refs = [weakref.ref(kept[0][1]), weakref.ref(kept[1]["one"][1])]
        kept.clear()
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


def test_the_first_scope_of_a_process_may_come_when_it_ends():
    """From Python 3.12 on no thread can be started then."""
    program = """
import atexit, tenure, torch
@atexit.register
def leave():
    with tenure.scope():
        x = torch.ones(3) * 2
    print(tenure.info(x).state)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("disposed\n", "")


def test_scopes_release_nothing_where_no_callback_can_be_made():
    """A callback takes a page of memory that can be run. Without one the program goes on, and one line says so."""
    program = (
        "import torch, tenure\n"
        "from tenure.lifetime import births_twin\n"
        "births_twin._birth = None\n"
        "for _ in range(2):\n"
        "    with tenure.scope() as scope:\n"
        "        x = torch.ones(2)\n"
        "print(x.tolist(), scope.tensors())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "TENURE_NATIVE": "0"}
    )
    assert (done.returncode, done.stdout) == (0, "[1.0, 1.0] []\n"), done.stderr
    assert done.stderr.count("tenure: scopes release nothing in this process") == 1
