"""What torch itself makes in the first step, for all steps, outlives the scope of that step."""

import pytest

import tenure


def test_the_scale_of_a_gradient_scaler_lasts(torch):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for _ in range(3):
        with tenure.scope():
            scaler.scale(model(torch.ones(3, 4)).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    assert scaler.get_scale() == 16


@pytest.mark.parametrize("name", ["SGD", "Adam", "LBFGS", "ASGD", "Adafactor"])
def test_the_state_of_an_optimizer_lasts(torch, name):
    model = torch.nn.Linear(4, 2)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01)

    def loss():
        optimizer.zero_grad()
        value = model(torch.ones(3, 4)).square().sum()
        value.backward()
        return value

    for _ in range(3):
        with tenure.scope():
            optimizer.step(loss)
    assert all(torch.isfinite(weight).all() for weight in model.parameters())


def test_the_state_of_a_metric_lasts(torch):
    import torchmetrics

    mean, listed = torchmetrics.MeanMetric(), torchmetrics.CatMetric()
    both = torchmetrics.MetricCollection([mean, torchmetrics.classification.MulticlassAccuracy(2, average="micro")])
    scores = torch.tensor([[0.9, 0.1], [0.8, 0.2]])
    for step in range(3):
        with tenure.scope():
            mean.update(torch.ones(2) * step)
            listed.update(torch.ones(1) * step)
            both["MulticlassAccuracy"](scores, torch.tensor([0, step % 2]))
    with tenure.scope():
        both.compute()  # the metric keeps the result for the next call
    assert float(mean.compute()) == 1
    assert listed.compute().tolist() == [0, 1, 2]
    assert round(float(both.compute()["MulticlassAccuracy"]), 4) == 0.8333


def test_an_attribute_of_a_module_is_no_state(torch):
    class Keeps(torch.nn.Module):
        def forward(self, x):
            self.last = x + 1
            return self.last * 2

    module = Keeps()
    with tenure.scope():
        module(torch.ones(2))
    assert tenure.info(module.last).state == "disposed"
