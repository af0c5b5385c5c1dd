"""Tests with and without leaks; which ones must fail, the names say."""

import functools
import threading
from collections import deque

import pytest
import torch

HISTORY = []
CACHE = {}
ODD = {}
LAST = None
TABLE = None
RECENT = deque(maxlen=2)
ERRORS = []
NET = torch.nn.Linear(4, 4)
MADE = []
for _ in range(3):
    MADE.append(torch.ones(300))  # with the module: no test's


@functools.lru_cache
def mask(size):
    return torch.ones(size, size)


@pytest.fixture(scope="module")
def model():
    return torch.nn.Linear(100, 100)


@pytest.fixture
def batch():
    return torch.randn(32, 100)


@pytest.mark.tenure(max_leaked=0, max_peak="300 KB")
def test_clean(model, batch):
    model(batch).sum().backward()  # the gradients stay with the module's fixture
    assert model.weight.grad is not None


@pytest.mark.parametrize("number", range(200))
def test_clean_many(number, model):
    x = torch.full((50,), float(number), requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.sum() == 100


def test_leak_loss(model, batch):
    loss = model(batch).mean()
    HISTORY.append(loss)


def test_leak_cache():
    for number in range(5):
        CACHE[number] = torch.ones(200)


def test_leak_hook(batch):
    seen = []
    NET.register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
    for _ in range(3):
        NET(torch.ones(32, 4))


def test_leak_exception():
    x = torch.ones(500)
    try:
        raise ValueError("no")
    except ValueError as error:
        ERRORS.append(error)


def test_leak_thread():
    release = threading.Event()

    def wait(x):
        release.wait(60)

    threading.Thread(target=wait, args=(torch.ones(700),), daemon=True).start()


@pytest.mark.tenure(max_leaked="1 MB")
def test_clean_within_its_limit(batch):
    HISTORY.append(batch * 2)


def test_clean_warms_up_a_cache():
    assert mask(30).sum() == 900


def test_clean_keeps_one_value(batch):
    global LAST
    LAST = batch * 2


def test_clean_makes_a_table_once():
    global TABLE
    TABLE = [torch.ones(100) for _ in range(4)]


def test_clean_bounded():
    for _ in range(10):
        RECENT.append(torch.ones(300))


def test_clean_raises(batch):
    with pytest.raises(RuntimeError) as caught:
        batch @ torch.zeros(3)
    assert caught


def test_clean_cycle():
    class Node:
        pass

    node = Node()
    node.itself, node.value = node, torch.ones(1000)


@pytest.mark.tenure(max_leaked=0)
def test_leak_over_its_limit(batch):
    global LAST
    LAST = batch.repeat(3, 1)


@pytest.mark.tenure(max_leaked=0)
def test_leak_odd_key(batch):
    ODD["\x1b[31m<script>alert(1)</script>\n" + "x" * 1_000_000] = torch.ones(100)


@pytest.mark.tenure(max_peak="1 MiB")
def test_peak_over_its_limit(model):
    x = torch.zeros(1 << 19)
    assert (x + 1).sum() == 1 << 19


@pytest.mark.tenure(max_peak="5 MiB")
def test_clean_within_its_peak():
    x = torch.zeros(1 << 19)
    assert (x + 1).sum() == 1 << 19


def test_clean_by_its_trace(tenure_trace):
    x = torch.zeros(1 << 18)
    trace = tenure_trace.load()
    assert trace.peak().bytes >= 1 << 20
    assert tenure_trace.path.is_dir()
    del x


def test_clean_after_a_trace(batch):
    assert (batch + 1).shape == (32, 100)


def test_leak_after_a_trace(batch):
    HISTORY.append(batch + 1)


def test_fail_is_explained():
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()
