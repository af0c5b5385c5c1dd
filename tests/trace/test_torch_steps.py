"""An optimizer's step as one operation: what is told of it, and when everything is told."""

import pytest
import torch

import tenure
from tenure import native
from tenure.frameworks.recording import torch as recording


@pytest.fixture(autouse=True)
def _native():
    if recording.core() is None:
        pytest.skip(f"the native recorder is not there: {native.reason('tenure_torch_recorder')}")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 48)

    def forward(self, x):
        return self.layer(x).square().mean()


def trained(tmp_path, optimizer=None, *, steps=6, around=lambda step: step(), prepare=lambda optimizer: None):
    """The trace of a small training, opened."""
    torch.manual_seed(0)
    model = Net()
    made = (optimizer or torch.optim.AdamW)(model.parameters(), lr=0.01)
    prepare(made)
    x = torch.randn(8, 64)
    with tenure.trace(tmp_path / "trace", replace=True):
        for _ in range(steps):
            model(x).backward()
            around(made.step)
            made.zero_grad()
    return tenure.load(tmp_path / "trace")


def ops(trace, step):
    """The operations that gave birth in a step, or were a last use."""
    query = f"select distinct op as name from events where step = {step} and op is not null union "
    query += f"select distinct last_op from events where step = {step} and last_op is not null"
    return {row["name"] for row in trace.sql(query).to_pylist()}


def test_from_the_third_on_a_step_is_one_operation(tmp_path):
    trace = trained(tmp_path)
    assert "AdamW.step" not in ops(trace, 0) | ops(trace, 1)
    assert any(op.startswith(("aten::_fused", "aten::add")) for op in ops(trace, 0))
    for step in (2, 3, 4, 5):
        assert "AdamW.step" in ops(trace, step)
        assert "aten::addcdiv_" not in ops(trace, step)


def test_it_uses_parameters_gradients_and_state(tmp_path):
    trace = trained(tmp_path)
    rows = trace.sql("select buffer, step from events where last_op = 'AdamW.step'").to_pylist()
    used = {row["buffer"] for row in rows}
    lately = {row["buffer"] for row in rows if row["step"] == 5}
    kinds = trace.sql("select buffer, kind from buffers where bytes >= 48 * 4 and kind is not null").to_pylist()
    moments = {row["buffer"] for row in kinds if row["kind"] == "optimizer state"}
    assert len(moments) == 4  # exp_avg and exp_avg_sq of a weight and a bias
    assert moments <= lately
    assert {row["buffer"] for row in kinds if row["kind"] == "gradient"} & used
    # Where it happened is the user's line.
    places = trace.sql("select distinct last_site from events where last_op = 'AdamW.step'").to_pylist()
    assert all("test_torch_steps.py" in row["last_site"] for row in places)


def test_what_is_alive_stays_exact(tmp_path):
    whole = trained(tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tenure.frameworks.recording.torch_steps.Steps._FULL", 10**9)
        full = trained(tmp_path / "full")
    assert "AdamW.step" not in ops(full, 4)
    assert whole.peak().bytes == full.peak().bytes

    def births(trace):
        rows = trace.sql("select bytes, count(*) as n from buffers where bytes > 16 group by bytes order by bytes")
        return rows.to_pylist()

    assert births(whole) == births(full)


def closure(step):
    step(lambda: torch.ones(3).sum())


class Own(torch.optim.SGD):
    """An optimizer of the user's."""


def hooked(optimizer):
    optimizer.register_step_pre_hook(lambda *_: None)


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        ("a closure", {"around": closure}),
        ("an optimizer of the user's", {"optimizer": Own}),
        ("a hook of the user's", {"prepare": hooked}),
    ],
)
def test_where_others_are_at_work_all_is_told(tmp_path, case, arguments):
    trace = trained(tmp_path, **arguments)
    assert not {op for op in ops(trace, 4) if op.endswith(".step")}, case
    assert {op for op in ops(trace, 4) if op.startswith("aten::") and op.endswith("_")}, case


def test_under_the_profiler_all_is_told(tmp_path):
    with torch.profiler.profile() as profile:
        trace = trained(tmp_path)
    assert "AdamW.step" not in ops(trace, 4)
    assert any(event.name == "aten::lerp_" or "adamw" in event.name.lower() for event in profile.events())


def test_a_step_that_fails_is_over(tmp_path):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 64)
    with tenure.trace(tmp_path / "trace"):
        for _ in range(4):
            model(x).backward()
            optimizer.step()
        optimizer.param_groups[0]["lr"] = "fast"
        with pytest.raises(TypeError) as failed:
            optimizer.step()
        del failed
        later = torch.full((12345,), 2.0)
        later.mul_(3.0)
    rows = tenure.load(tmp_path / "trace").sql("select op, last_op from buffers where bytes = 12345 * 4").to_pylist()
    assert [(row["op"], row["last_op"]) for row in rows] == [("aten::full", "aten::mul_")]


def test_a_step_that_fails_is_over_though_the_error_is_kept(tmp_path):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tenure.trace(tmp_path / "trace"):
        for _ in range(4):
            model(torch.randn(8, 64)).backward()
            optimizer.step()
        optimizer.param_groups[0]["lr"] = "fast"
        with pytest.raises(TypeError) as failed:
            optimizer.step()
        with torch.profiler.profile() as profile:
            torch.ones(3)
        later = torch.full((12345,), 2.0)
        later.mul_(3.0)
        assert failed.value
    assert any(event.name == "aten::ones" for event in profile.events())
    rows = tenure.load(tmp_path / "trace").sql("select op, last_op from buffers where bytes = 12345 * 4").to_pylist()
    assert [(row["op"], row["last_op"]) for row in rows] == [("aten::full", "aten::mul_")]


def test_a_step_that_fails_inside_of_an_operation_is_over(tmp_path):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    class Steps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            optimizer.step()
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    def tried(folder):
        with tenure.trace(folder):
            for _ in range(4):
                model(torch.randn(8, 64)).backward()
                optimizer.step()
            optimizer.param_groups[0]["lr"] = "fast"
            with pytest.raises(TypeError):
                Steps.apply(torch.ones(8, 8))
            optimizer.param_groups[0]["lr"] = 0.01
            later = torch.full((12345,), 2.0)
            later.mul_(3.0)
        query = "select op, last_op from buffers where bytes = 12345 * 4 and op is not null"
        return [tuple(row.values()) for row in tenure.load(folder).sql(query).to_pylist()]

    assert tried(tmp_path / "first") == [("aten::full", "aten::mul_")]
    assert tried(tmp_path / "second") == [("aten::full", "aten::mul_")]


def test_another_observer_hears_the_step(tmp_path):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "observed.json"))
    with tenure.trace(tmp_path / "trace"):
        for step in range(5):
            model(torch.randn(8, 64)).backward()
            if step == 4:
                observer.start()
            optimizer.step()
    observer.stop()
    observer.unregister_callback()
    observed = (tmp_path / "observed.json").read_text()
    assert '"aten::add_"' in observed or '"aten::_foreach_add_"' in observed


def test_numbers_are_the_same_with_and_without(tmp_path):
    def run():
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        x = torch.randn(8, 64)
        for _ in range(8):
            loss = model(x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    plain = run()
    with tenure.trace(tmp_path / "trace"):
        traced = run()
    assert all(torch.equal(one, other) for one, other in zip(plain, traced, strict=True))


def test_a_number_made_inside_that_stays_is_told(tmp_path):
    """Optimizers make Python's numbers into tensors and drop them; the count of a parameter's steps is kept."""
    early, late = (torch.nn.Parameter(torch.randn(40)) for _ in range(2))
    optimizer = torch.optim.AdamW([early, late], lr=0.01)
    with tenure.trace(tmp_path / "trace"):
        for at in range(6):
            (early.sum() + (late.sum() if at > 3 else 0)).backward()
            optimizer.step()
            optimizer.zero_grad()
    query = "select op, step, bytes from buffers where kind = 'optimizer state' and ended is null and step = 4"
    rows = tenure.load(tmp_path / "trace").sql(query).to_pylist()
    assert sorted(row["bytes"] for row in rows) == [4, 160, 160]
    assert {row["op"] for row in rows} == {"AdamW.step"}
