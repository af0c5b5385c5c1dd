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
