"""Forward passes with gradients that nothing differentiates: what `no_grad` saves, and that needed graphs are not reported."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tenure
from tenure import stacks
from tenure.frameworks.recording import torch as recording
from tenure.traces import load

pytestmark = pytest.mark.skipif(
    stacks.core() is None or recording.core() is None, reason="graphs are seen by the native recorder alone"
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(256, 512), nn.Linear(512, 512), nn.Linear(512, 8)

    def forward(self, x):
        x = F.relu(self.first(x))
        x = F.relu(self.second(x))
        return self.third(x).log_softmax(1)


def batches(count=4, rows=512):
    return [torch.randn(rows, 256) for _ in range(count)]


def train(model, optimizer, rows=64):
    for x in batches(rows=rows):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def evaluate(model):
    right = 0
    for x in batches():
        output = model(x)
        right += int((output.argmax(1) == 0).sum())
    return right


def advice_of(path, program):
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tenure.trace(path):
        program(model, optimizer)
    trace = load(path)
    return trace, [finding for finding in trace.findings() if finding.code == "TN316"]


def trained_and_evaluated(model, optimizer):
    train(model, optimizer)
    evaluate(model)


def of_library_layers(model, optimizer):
    train(model, optimizer)
    layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))
    evaluate(layers)


def in_generator(model, optimizer):
    def scores():
        for x in batches():
            yield model(x)

    train(model, optimizer)
    for score in scores():
        score.argmax(1).tolist()


@pytest.mark.parametrize("program", [trained_and_evaluated, of_library_layers, in_generator])
def test_the_peak_without_graphs_is_near_the_one_under_no_grad(program, tmp_path):
    trace, found = advice_of(tmp_path / "with", program)
    assert len(found) == 1, [finding.message for finding in trace.findings()]
    (finding,) = found
    assert finding.severity == "advice"
    # A generator is suspended when its buffers are freed: the statement that iterates over it is the one that goes on.
    assert finding.main.text.strip() in ("output = model(x)", "for score in scores():")

    def without(model, optimizer):
        torch.set_grad_enabled(False)
        try:
            evaluate(model if program is not of_library_layers else nn.Sequential(*layers()))
        finally:
            torch.set_grad_enabled(True)

    def layers():
        return nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8)

    best, none = advice_of(tmp_path / "without", without)
    assert not none
    evidence = finding.evidence
    assert evidence["saved"] == evidence["peak"] - evidence["left"] >= 0.1 * evidence["peak"]
    assert evidence["left"] >= best.peak().bytes * 0.9


def test_results_that_stay_until_the_end_keep_their_graphs(tmp_path):
    kept = []

    def program(model, optimizer):
        train(model, optimizer)
        kept.extend(model(x) for x in batches())

    _, found = advice_of(tmp_path / "trace", program)
    assert [finding.evidence["saved"] > 0 for finding in found] == [True]


def under_no_grad(model, optimizer):
    train(model, optimizer)
    with torch.no_grad():
        evaluate(model)


def of_frozen_parameters(model, optimizer):
    train(model, optimizer)
    model.requires_grad_(False)
    evaluate(model)


def differentiated_later(model, optimizer):
    for _ in range(3):
        total = 0
        for x in batches():
            total = total + model(x).mean()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()


def one_function_for_both(model, optimizer):
    for epoch in range(4):
        training = epoch % 2 == 0
        with torch.set_grad_enabled(training):
            for x in batches():
                loss = model(x).mean()
                if training:
                    loss.backward()


def one_pass_alone(model, optimizer):
    train(model, optimizer)
    model(torch.randn(512, 256)).argmax(1).tolist()


def activations_in_a_list(model, optimizer):
    """Frozen layers, whose results the program itself keeps until the next batch."""
    train(model, optimizer)
    model.requires_grad_(False)
    for x in batches():
        kept = [x]
        for layer in (model.first, model.second, model.third):
            kept.append(F.relu(layer(kept[-1])))
        kept[-1].argmax(1).tolist()


@pytest.mark.parametrize(
    "program",
    [
        under_no_grad,
        of_frozen_parameters,
        differentiated_later,
        one_function_for_both,
        one_pass_alone,
        activations_in_a_list,
    ],
)
def test_needed_graphs_and_none_are_not_reported(program, tmp_path):
    _, found = advice_of(tmp_path / "trace", program)
    assert not found, [(finding.message, finding.main) for finding in found]
