"""What is told of autograd's nodes is the same whether its engine gives word of them or its own calls are seen."""

import gc
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch.utils import checkpoint

import tenure
from tenure import native
from tenure.frameworks.recording import torch as recording


@pytest.fixture(autouse=True)
def _native():
    if recording.core() is None:
        pytest.skip(f"the native recorder is not there: {native.reason('tenure_torch_recorder')}")


@pytest.fixture(params=[True, False], ids=["seen", "told"])
def traced(request):
    """A trace with the engine's calls seen, or without that."""

    @contextmanager
    def trace(folder):
        with tenure.trace(folder):
            assert recording.core().direct(request.param) is request.param
            yield

    return trace


class Net(torch.nn.Module):
    def __init__(self, again):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(3))
        self.again = again

    def forward(self, x):
        for layer in self.layers:
            x = self.again(lambda x, layer=layer: torch.tanh(layer(x)) + x, x)
        return x.square().mean()


def doubling(backward, name="Doubling"):
    """A function of the user's: twice its input, with this backward."""
    methods = {"forward": staticmethod(lambda ctx, x: x * 2), "backward": staticmethod(backward)}
    return type(name, (torch.autograd.Function,), methods)


def plainly(function, x):
    return function(x)


def computed_again(function, x):
    return checkpoint.checkpoint(function, x, use_reentrant=False)


def inside_backward(function, x):
    """Its backward runs autograd's engine inside of a node."""
    return checkpoint.checkpoint(function, x, use_reentrant=True)


def one_weight():
    weight = torch.nn.Parameter(torch.ones(40, 40))
    return weight, torch.optim.SGD([weight], lr=0.1)


def several(again, *batch):
    torch.manual_seed(0)
    net = Net(again)
    return net, torch.optim.AdamW(net.parameters(), lr=0.01), torch.randn(*batch, 32, requires_grad=True)


def trained(folder, again, direct, steps=5):
    net, optimizer, x = several(again, 8)
    gc.collect()  # else it comes when it will
    gc.disable()
    with tenure.trace(folder):
        assert recording.core().direct(direct) is direct
        for _ in range(steps):
            loss = net(x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            x.grad = None
    gc.enable()
    return tenure.load(folder)


LIVES = """
    select op, bytes, shape, uses, last_op, kind, step, end_step, site, last_site, end_site, cause
    from buffers where bytes > 16
"""


def lives(trace):
    return Counter(tuple(row.values()) for row in trace.sql(LIVES).to_pylist())


@pytest.mark.parametrize("again", [plainly, computed_again, inside_backward])
def test_the_same_lives_either_way(tmp_path, again):
    told = {direct: lives(trained(tmp_path / str(direct), again, direct)) for direct in (False, True)}
    assert any("Backward" in (life[0] or "") for life in told[True])
    assert told[True] == told[False]


def test_what_hooks_do_is_told(tmp_path, traced):
    weight, optimizer = one_weight()
    with traced(tmp_path / "trace"):
        for _ in range(4):
            y = (weight * 3).tanh()
            y.register_hook(lambda gradient: gradient * 2)
            y.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    query = "select distinct last_site as site from events where last_site is not null and step > 1"
    sites = [row["site"] for row in tenure.load(tmp_path / "trace").sql(query).to_pylist()]
    assert any("<lambda>" in site for site in sites)


def test_a_gradient_has_its_shape_though_nothing_reads_it(tmp_path, traced):
    weight, _ = one_weight()
    with traced(tmp_path / "trace"):
        (weight * 3).sum().backward()
        bare = torch.nn.Parameter(torch.ones(7, 5))
        bare.sum().backward()  # its gradient is one number, repeated: a copy is made
    query = "select op, shape, uses from buffers where op like '%Backward0' or op like '%AccumulateGrad'"
    rows = [tuple(row.values()) for row in tenure.load(tmp_path / "trace").sql(query).to_pylist()]
    assert ("MulBackward0", "[40, 40]", 0) in rows
    assert [row[1] for row in rows if row[0] == "torch::autograd::AccumulateGrad"] == ["[7, 5]"]


def test_nodes_of_the_users_go_by_their_own_names(tmp_path, traced):
    weight, _ = one_weight()
    with traced(tmp_path / "trace"):
        for name in ("First", "Second", "First"):
            doubling(lambda ctx, gradient: gradient * 2, name).apply(weight).sum().backward()
            weight.grad = None
    query = "select op, count(*) as many from buffers where bytes > 16 and op similar to '(First|Second)Backward' group by op order by op"
    rows = [tuple(row.values()) for row in tenure.load(tmp_path / "trace").sql(query).to_pylist()]
    assert rows == [("FirstBackward", 2), ("SecondBackward", 1)]


def test_a_backward_that_fails_is_over(tmp_path, traced):
    @doubling
    def fails(ctx, gradient):
        raise RuntimeError("on purpose")

    weight, optimizer = one_weight()
    with traced(tmp_path / "trace"):
        for _ in range(3):
            (weight * 3).sum().backward()
            optimizer.step()
        with pytest.raises(RuntimeError, match="on purpose"):
            fails.apply(weight * 3).sum().backward()
        torch.ones(17, 3)  # from here on all is as it was
        later = torch.full((123, 45), 2.0)
        later.mul_(3.0)
        del later
    query = "select op, last_op, last_site from buffers where bytes = 123 * 45 * 4"
    (row,) = tenure.load(tmp_path / "trace").sql(query).to_pylist()
    assert (row["op"], row["last_op"]) == ("aten::full", "aten::mul_")


def test_what_another_thread_does_meanwhile_is_told(tmp_path, traced):
    begun, done = threading.Event(), threading.Event()

    @doubling
    def waits(ctx, gradient):
        begun.set()
        assert done.wait(30)
        return gradient * 2

    def work():
        other = torch.full((77, 11), 1.0)
        ready.set()
        assert begun.wait(30)
        other.mul_(5.0)
        done.set()

    ready = threading.Event()
    weight, optimizer = one_weight()
    with traced(tmp_path / "trace"):
        for _ in range(3):
            (weight * 3).sum().backward()
            optimizer.step()
        thread = threading.Thread(target=work)
        thread.start()
        assert ready.wait(30)
        waits.apply(weight).sum().backward()
        thread.join()
    query = "select op, last_op from buffers where bytes = 77 * 11 * 4"
    rows = tenure.load(tmp_path / "trace").sql(query).to_pylist()
    assert [(row["op"], row["last_op"]) for row in rows] == [("aten::full", "aten::mul_")]


def test_stopping_in_the_middle_leaves_torch_as_it_was(tmp_path):
    weight, optimizer = one_weight()
    recording_now = tenure.trace(tmp_path / "trace")

    @doubling
    def stops(ctx, gradient):
        recording_now.__exit__(None, None, None)
        return gradient * 2

    recording_now.__enter__()
    for _ in range(3):
        (weight * 3).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    stops.apply(weight * 3).sum().backward()
    assert weight.grad.sum().item() == 40 * 40 * 6
    with torch.profiler.profile() as profile:
        (weight * 3).sum().backward()
    assert any("MulBackward0" in event.name for event in profile.events())
    with tenure.trace(tmp_path / "next"):
        x = torch.full((31, 31), 1.0)
        x.mul_(2.0)
        del x
    (row,) = tenure.load(tmp_path / "next").sql("select last_op from buffers where bytes = 31 * 31 * 4").to_pylist()
    assert row["last_op"] == "aten::mul_"


def heard_by_a_profiler(folder=None):
    """The operations of a sixth step, as torch's own profiler hears them."""
    net, optimizer, x = several(plainly, 4, 8)  # whose backward has operations inside of operations

    def step():
        net(x).backward()
        optimizer.step()
        optimizer.zero_grad()

    def watched():
        for _ in range(5):
            step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            net(x).backward()
        return Counter(event.name for event in profiler.events())

    if folder is None:
        return watched()
    with tenure.trace(folder):
        return watched()


def test_a_profiler_hears_what_is_inside_of_operations(tmp_path):
    heard = heard_by_a_profiler()
    assert heard["aten::as_strided"] > 5
    assert heard["autograd::engine::evaluate_function: AddmmBackward0"] == 3
    assert heard["detach"] > 5
    assert heard_by_a_profiler(tmp_path / "trace") == heard


def test_a_profiler_inside_of_a_node_hears_all_of_it(tmp_path):
    def heard(trace):
        weight, _ = one_weight()
        found = []

        @doubling
        def profiled(ctx, gradient):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
                made = gradient.tanh().t().reshape(-1).view(40, 40)
                with torch.enable_grad():
                    (weight.detach().requires_grad_() * 3).sum().backward()
            found.append(Counter(event.name for event in profiler.events()))
            return made

        with trace():
            (weight * 3).sum().backward()
            profiled.apply(weight.exp()).sum().backward()
        return found

    expected = heard(nullcontext)
    assert expected[0]["aten::tanh"] == 1
    assert expected[0]["autograd::engine::evaluate_function: MulBackward0"] == 1
    assert heard(lambda: tenure.trace(tmp_path / "trace")) == expected


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_has_no_shape_is_recorded_without(tmp_path, traced):
    def ragged():
        return torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], requires_grad=True)

    before = ragged()
    with traced(tmp_path / "trace"):
        for one in (before, ragged()):
            (one * 2).to_padded_tensor(0.0).sum().backward()
            assert one.grad.is_nested
    rows = (
        tenure.load(tmp_path / "trace")
        .sql("select shape from buffers where bytes = 18 * 4 and shape is null")
        .to_pylist()
    )
    assert rows


def test_nothing_is_heard_where_torch_tells_nobody(tmp_path):
    """Who has torch tell nobody inside of an operation, and leaves it so."""

    class Silences(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            torch.autograd._enable_record_function(False)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    with tenure.trace(tmp_path / "trace"):
        try:
            Silences.apply(torch.ones(3))
            unheard = torch.full((36, 36), 1.0)
        finally:
            torch.autograd._enable_record_function(True)
        heard = torch.full((37, 37), 1.0)
        heard.exp()
        del unheard, heard
    query = "select op, uses from buffers where bytes = 37 * 37 * 4 and uses > 0 union all select op, uses from buffers where bytes = 36 * 36 * 4"
    rows = [tuple(row.values()) for row in tenure.load(tmp_path / "trace").sql(query).to_pylist()]
    assert rows == [("aten::full", 1), (None, 0)]
