"""What a finding of `run` proposes is right at once: applied, the program runs, the leak is gone, and no other appears."""

import pytest
from applying import apply, proposed
from leaking import LEAKS
from test_leaks import run

BEGIN = """
import torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(x):
    out = model(x)
    loss = out.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, out
"""

WITH_EDITS = ("TN301", "TN302", "TN303", "TN308")

# What is to be in the file after the edits; None where no edit is sure to be right.
PROGRAMS = {
    "two lists in one dict": (
        """
metrics = {"loss": [], "logits": []}
for step in range(40):
    logits = model(torch.randn(128, 64))
    loss = logits.square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    metrics["loss"].append(loss)
    metrics["logits"].append(logits[0])
""",
        ('["loss"].append(loss.item())', '["logits"].append(logits[0].detach().clone())'),
    ),
    "the second list alone": (
        """
metrics = {"loss": [], "logits": []}
for step in range(40):
    loss, logits = train(torch.randn(128, 64))
    metrics["loss"].append(loss.item())
    metrics["logits"].append(logits[0].clone())
""",
        ('["loss"].append(loss.item())', "append(logits[0].clone().detach())"),
    ),
    "tensors are read as tensors": (
        """
losses = []
for step in range(40):
    loss, _ = train(torch.randn(8, 64))
    losses.append(loss)
print(torch.stack(losses).mean().item() > 0)
""",
        ("losses.append(loss.detach())",),
    ),
    "a sum is read by item()": (
        """
total = 0.0
for step in range(40):
    loss, _ = train(torch.randn(8, 64))
    total += loss
print(total.item() > 0)
""",
        ("total += loss.detach()",),
    ),
    "a sum is printed": (
        """
total = 0.0
for step in range(40):
    loss, _ = train(torch.randn(8, 64))
    total = total + loss * 2
print(f"{total / 40:.3f}" != "")
""",
        ("total = total + (loss * 2).item()",),
    ),
    "letters of two bytes": (
        """
größen = {"überall": []}
for step in range(40):
    verlust, _ = train(torch.randn(8, 64))
    größen["überall"].append(verlust)
""",
        ('größen["überall"].append(verlust.item())',),
    ),
    "records in a list": (
        """
history = []
for step in range(40):
    loss, out = train(torch.randn(8, 64))
    history.append({"step": step, "loss": loss})
""",
        ('history.append({"step": step, "loss": loss.item()})',),
    ),
    "the same name in two functions": (
        """
class Meter:
    def __init__(self):
        self.values = []
    def add(self, value):
        self.values.append(value)
class Steps:
    def __init__(self):
        self.values = []
    def add(self, value):
        self.values.append(value * 2)
meter, steps = Meter(), Steps()
for step in range(40):
    loss, _ = train(torch.randn(8, 64))
    meter.add(loss)
    steps.add(step)
""",
        None,
    ),
    "a method with the name of a tensor's": (
        """
class Meter:
    def __init__(self):
        self.log = []
    def add(self, value):
        self.log.append(value)
    def mean(self):
        return sum(value.item() for value in self.log) / len(self.log)
meter = Meter()
for step in range(40):
    loss = (model(torch.randn(8, 64)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    meter.add(loss)
print(meter.mean() > 0)
""",
        ("self.log.append(value.detach())",),
    ),
    "a state in a loop": (
        """
cell = torch.nn.GRUCell(64, 64)
hidden = None
for step in range(40):
    hidden = cell(torch.randn(8, 64), hidden)
    loss, _ = train(torch.randn(8, 64))
""",
        None,
    ),
    "one of several results": (
        """
rnn = torch.nn.GRU(64, 64)
head = torch.nn.Linear(64, 1)
hidden = None
for step in range(40):
    out, hidden = rnn(torch.randn(3, 8, 64), hidden)
    optimizer.zero_grad()
    head(model(torch.randn(8, 64)) + out[-1].detach()).mean().backward()
    optimizer.step()
""",
        ("    hidden = hidden.detach()\n",),
    ),
    "what backward() goes through later": (
        """
saved, rewards = [], []
for step in range(40):
    x = torch.randn(8, 64)
    out = model(x).softmax(1)[:, 0].log().mean()
    saved.append(out)
    rewards.append(float(step))
    loss = torch.stack([a * b for a, b in zip(saved, rewards)]).sum()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    with torch.no_grad():
        for p in model.parameters():
            p.data = p.data.clone()
""",
        None,
    ),
}


def _is_gone(findings, program, tmp_path, *arguments):
    edited = apply(findings, program, tmp_path / "edited")
    done, after = run(edited, tmp_path / "again", arguments=arguments)
    return edited.read_text(), done, after


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_edit_is_right_at_once(name, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "again").mkdir()
    program = tmp_path / "one" / "program.py"
    source, wanted = PROGRAMS[name]
    program.write_text(BEGIN + source)
    done, findings = run(program, tmp_path)
    assert done.returncode == 0 and findings, done.stderr
    if wanted is None:
        assert not proposed(findings), done.stderr
        return
    text, done, after = _is_gone(findings, program, tmp_path)
    assert all(one in text for one in wanted), text
    assert (done.returncode, after) == (0, []), text + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, (code, _) in LEAKS.items() if code in WITH_EDITS])
def test_edits_of_the_known_leaks(name, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "again").mkdir()
    program = tmp_path / "one" / "program.py"
    program.write_text(LEAKS[name][1])
    _, findings = run(program, tmp_path)
    if not proposed(findings):
        pytest.skip("no edit is proposed")
    text, done, after = _is_gone(findings, program, tmp_path)
    assert (done.returncode, after) == (0, []), text + done.stderr
