"""What a trace of torch holds, with the native recorder and with the one in Python."""

import _thread
import gc
import itertools
import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tenure

torch = pytest.importorskip("torch")
pa = pytest.importorskip("pyarrow")

from tenure.frameworks.recording import torch as recording  # noqa: E402
from tenure.trace.recorder import Recorder  # noqa: E402
from tenure.views.html.build import build  # noqa: E402
from tenure.views.html.detail import Detail  # noqa: E402


@pytest.fixture(params=["native", "python"])
def recorder(request, tmp_path, monkeypatch):
    if request.param == "python":
        monkeypatch.setenv("TENURE_NATIVE", "0")
    recorder = Recorder(tmp_path / "trace")
    yield recorder
    recorder.stop()


def rows(recorder, event=None):
    recorder.stop()
    (file,) = recorder.folder.glob("*.arrows")
    found = pa.ipc.open_stream(file).read_all().to_pylist()
    return [row for row in found if event in (None, row["event"])]


def line(text):
    """The line of this file that holds the text."""
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, found in enumerate(source, 1) if text in found and "line(" not in found)


def alive(recorder, found=None):
    """The bytes that the trace says are alive at its end."""
    found = rows(recorder) if found is None else found
    ended = {row["buffer"] for row in found if row["event"] == "end"}
    return sum(row["bytes"] for row in found if row["event"] == "birth" and row["buffer"] not in ended)


def test_a_life(recorder):
    recorder.start()
    x = torch.ones(1000, 7)  # born here
    y = x.sum()  # used here
    del x  # ended here
    found = rows(recorder)
    (birth,) = [row for row in found if row["event"] == "birth" and row["bytes"] == 28000]
    assert (birth["framework"], birth["device"], birth["dtype"]) == ("torch", "cpu", "float32")
    assert birth["shape"] == "[1000, 7]"
    assert birth["site"] == f"{__file__}:{line('born here')} in test_a_life"
    assert birth["stack"].startswith(birth["site"])
    (end,) = [row for row in found if row["event"] == "end" and row["buffer"] == birth["buffer"]]
    assert end["cause"] == "last reference"
    if recorder._sources["torch"].native:  # in Python, the end is found out later
        assert end["site"] == f"{__file__}:{line('ended here')} in test_a_life"
    assert end["uses"] >= 1
    assert (end["last_op"], end["last_site"]) == ("aten::sum", f"{__file__}:{line('used here')} in test_a_life")
    assert birth["time"] <= end["last_use"] <= end["time"]
    assert y.item() == 7000


@pytest.mark.parametrize("hooked", [False, True])
def test_what_backward_makes_is_born_where_it_is_called(recorder, hooked):
    weight = torch.ones(31, 37, requires_grad=True)
    made = []
    recorder.start()
    y = torch.ones(5, 31) @ weight
    slope = torch.ones_like(y)
    if hooked:  # Python that runs inside of it
        y.register_hook(lambda grad: made.append(grad.new_ones(41, 43)))  # in the hook
    y.backward(slope)  # called here
    found = rows(recorder, "birth")
    births = [row for row in found if row["bytes"] == 4 * 31 * 37 and row["site"]]  # not the weight, which was there
    assert {row["site"].split(" in ")[0] for row in births} == {f"{__file__}:{line('called here')}"}
    if hooked and recorder._sources["torch"].native:  # in Python, what a hook makes is met later
        (inside,) = [row for row in found if row["bytes"] == 4 * 41 * 43]
        assert inside["site"].startswith(f"{__file__}:{line('in the hook')} in")


def test_what_torch_frees_without_the_gil_ended_where_it_was_let_go(recorder):
    """Also in a function that has never called anything: then at the line that called it, and soon at its own."""
    recorder.start()
    if not recorder._sources["torch"].native:
        pytest.skip("in Python, the end is found out later")
    weight = torch.nn.Parameter(torch.ones(100, 50))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    box = {}

    def forget():
        box.clear()  # forgotten here

    for _ in range(5):
        (weight * 2).sum().backward()
        optimizer.step()  # not here
        box["x"] = torch.ones(70, 70)
        forget()  # or by this line
        optimizer.zero_grad()  # let go here
    name = "test_what_torch_frees_without_the_gil_ended_where_it_was_let_go"
    found = rows(recorder)
    gradients = {row["buffer"] for row in found if row["event"] == "kind" and row["kind"] == "gradient"}
    gradients |= {row["buffer"] for row in found if row["kind"] == "gradient" and row["event"] in ("use", "end")}
    ends = [row["site"] for row in found if row["event"] == "end" and row["buffer"] in gradients]
    assert ends == [f"{__file__}:{line('# let go here')} in {name}"] * 5
    boxed = {row["buffer"] for row in found if row["event"] == "birth" and row["bytes"] == 70 * 70 * 4}
    ends = [row["site"] for row in found if row["event"] == "end" and row["buffer"] in boxed]
    own = f"{__file__}:{line('# forgotten here')} in {name}.<locals>.forget"
    assert len(ends) == 5
    assert set(ends) <= {f"{__file__}:{line('# or by this line')} in {name}", own}
    assert ends[-1] == own


def test_kinds_and_steps(recorder):
    recorder.start()
    model = torch.nn.Sequential(torch.nn.Linear(11, 13), torch.nn.Tanh(), torch.nn.Linear(13, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        loss = model(torch.ones(17, 11)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = rows(recorder)
    assert len([row for row in found if row["event"] == "step"]) == 3
    kinds = {}
    for row in found:
        if row["kind"]:
            kinds[row["buffer"]] = row["kind"]
    births = {row["buffer"]: row for row in found if row["event"] == "birth"}
    named = {(births[number]["bytes"], kind) for number, kind in kinds.items()}
    assert (11 * 13 * 4, "parameter") in named
    assert (11 * 13 * 4, "optimizer state") in named
    assert (17 * 13 * 4, "activation") in named
    assert (11 * 13 * 4, "gradient") in named
    if recorder._sources["torch"].native:
        placeless = [row for row in births.values() if row["op"] and not row["site"]]
        assert not placeless
    assert {row["step"] for row in births.values()} == {0, 1, 2}


def test_memory_that_only_autograd_holds(recorder):
    recorder.start()
    w = torch.ones(50, 50, requires_grad=True)
    y = w.exp()
    loss = y.sum()
    del y  # its handle is gone, its bytes are saved
    gc.collect()
    torch.zeros(1)
    recorder.stop()
    found = rows(recorder)
    births = [row["buffer"] for row in found if row["event"] == "birth" and row["bytes"] == 10000]
    ended = [row["buffer"] for row in found if row["event"] == "end"]
    assert len(births) == 2 and not set(births) & set(ended)
    assert loss.grad_fn is not None


def test_results_are_the_same_to_the_bit(recorder):
    def run():
        torch.manual_seed(7)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.Dropout(0.3), torch.nn.GELU(), torch.nn.Linear(32, 4)
        )
        optimizer = torch.optim.AdamW(model.parameters())
        losses = []
        for _ in range(20):
            loss = model(torch.randn(16, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.detach().clone() for p in model.parameters()]

    plain = run()
    recorder.start()
    traced = run()
    recorder.stop()
    assert plain[0] == traced[0]
    assert all(torch.equal(one, other) for one, other in zip(plain[1], traced[1], strict=True))


def test_what_numpy_gave_is_an_input(recorder):
    numpy = pytest.importorskip("numpy")
    recorder.start()
    x = torch.from_numpy(numpy.ones(333, dtype="float32"))
    x + 1
    (birth,) = [row for row in rows(recorder, "birth") if row["bytes"] == 1332 and row["kind"] == "input"]
    assert birth["shape"] == "[333]"


def test_what_was_there_before(recorder):
    x = torch.ones(777)
    recorder.start()
    x + 1
    del x
    found = rows(recorder)
    (birth,) = [row for row in found if row["event"] == "birth" and row["bytes"] == 3108 and row["kind"] == "input"]
    assert [row for row in found if row["event"] == "end" and row["buffer"] == birth["buffer"]]


def test_scopes_and_causes(recorder):
    recorder.start()
    with tenure.scope("work"):
        x = torch.ones(444)
    y = torch.ones(555)
    tenure.dispose(y)
    found = rows(recorder)
    births = {row["bytes"]: row for row in found if row["event"] == "birth"}
    ends = {row["buffer"]: row for row in found if row["event"] == "end"}
    assert births[1776]["scope"] == "work" and births[2220]["scope"] is None
    assert ends[births[1776]["buffer"]]["cause"] == "scope exit"
    assert ends[births[2220]["buffer"]]["cause"] == "dispose"
    assert x is not y


def test_marks_and_steps_by_hand(recorder):
    recorder.start()
    tenure.mark("halfway")
    for _ in range(4):
        torch.ones(3)
        tenure.step()
    found = rows(recorder)
    assert [row["name"] for row in found if row["event"] == "mark" and row["name"] == "halfway"]
    assert len([row for row in found if row["event"] == "step"]) == 4


def test_stopping_leaves_torch_as_it_was(recorder):
    recorder.start()
    torch.ones(3)
    recorder.stop()
    size = recorder.events
    x = torch.ones(99)
    del x
    assert recorder.events == size
    other = Recorder(recorder.folder.with_name("again"))
    other.start()
    torch.ones(1234)
    assert [row for row in rows(other, "birth") if row["bytes"] == 4936]


def test_bytes_alive_are_what_the_profiler_counts(tmp_path):
    """An independent account of a training run on the host, at every step; in a process of its own."""
    if tenure.native.load("tenure_stacks", "stacks.cpp", flags=["-std=c++20"]) is None:
        pytest.skip("the recorder in Python does not see what operations make inside themselves")
    program = Path(__file__).parent / "programs" / "account.py"
    command = [sys.executable, "-W", "ignore", str(program), str(tmp_path / "trace")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    counted, told = done.stdout.splitlines()[-2:]
    assert counted == told
    assert "[0" not in counted


def test_other_threads_are_seen(tmp_path):
    recorder = Recorder(tmp_path / "trace")
    recorder.start()
    thread = threading.Thread(target=lambda: torch.ones(8888).sum(), name="worker")
    thread.start()
    thread.join()
    found = rows(recorder)
    (birth,) = [row for row in found if row["event"] == "birth" and row["bytes"] == 35552]
    assert birth["thread"]
    assert [row for row in found if row["event"] == "end" and row["buffer"] == birth["buffer"]]


def test_more_threads_and_scopes_than_sixteen_bits_can_number(tmp_path, count=66_000):
    """A number that starts again at zero would name the wrong thread and the wrong scope."""
    if tenure.native.load("tenure_stacks", "stacks.cpp", flags=["-std=c++20"]) is None:
        pytest.skip("the recorder in Python keeps names, not numbers")
    finished, kept = threading.Semaphore(0), []

    def work():
        torch.ones(3)
        finished.release()

    def last():
        kept.append(torch.ones(4321))
        time.sleep(0.5)  # so that the writer reads its name while it runs

    with tenure.trace(tmp_path / "trace"):
        for _ in range(count):
            _thread.start_new_thread(work, ())
            finished.acquire()
        thread = threading.Thread(target=last, name="last thread")
        thread.start()
        thread.join()
        for number in range(count):
            with tenure.scope(f"scope {number}"):
                torch.ones(3)
        with tenure.scope("last scope"):
            tenure.keep(torch.ones(8765))
    found = tenure.load(tmp_path / "trace").sql("select bytes, thread, scope from buffers where bytes > 10000")
    assert {row["bytes"]: (row["thread"], row["scope"]) for row in found.to_pylist()} == {
        17284: ("last thread", None),
        35060: (threading.current_thread().name, "last scope"),
    }


def test_the_profiler_sees_what_it_always_sees(tmp_path):
    def names():
        with torch.profiler.profile() as profile:
            torch.ones(3, 3).t().contiguous().view(9).detach()
        return [event.name for event in profile.events()]

    plain = names()
    recorder = Recorder(tmp_path / "trace")
    recorder.start()
    if not recorder._sources["torch"].native:
        recorder.stop()
        pytest.skip("the recorder in Python is a dispatch mode, which profiles show")
    torch.ones(2).view(2)
    assert names() == plain
    torch.ones(2).view(2)
    recorder.stop()
    assert names() == plain
    assert "aten::empty" in plain and "aten::view" in plain


def test_no_birth_without_an_end_or_an_owner(tmp_path):
    """What a trace of training leaves alive is what the program still has: parameters, gradients, state, its batch."""
    with tenure.trace(tmp_path / "t"):
        model = torch.nn.Sequential(
            torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 1)
        )
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(20):
            x = torch.randn(16, 32)
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        del loss
    owners = [*model.parameters(), *(each.grad for each in model.parameters()), x]
    owners += [value for state in optimizer.state.values() for value in state.values()]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in owners}
    # What other tests left in this process was there before, and has no line; JAX's arrays know theirs.
    query = "select bytes, op, site from buffers where ended is null and site is not null and framework = 'torch'"
    left = tenure.load(tmp_path / "t").sql(query).to_pylist()
    assert sorted(row["bytes"] for row in left) == sorted(storages.values()), left


def test_a_shape_that_is_learnt_late_is_told(tmp_path):
    with tenure.trace(tmp_path / "trace"):
        x = torch.empty(64, 48)  # who made it knows its bytes; its shape is seen where it is taken
        time.sleep(0.5)
        y = torch.empty(32, 24)
        x.sum()
        time.sleep(0.3)
        y.sum()
        del x, y
    query = "select bytes, shape, dtype from buffers where bytes in (12288, 3072) order by bytes"
    trace = tenure.load(tmp_path / "trace")
    assert trace.sql(query).to_pylist() == [
        {"bytes": 3072, "shape": "[32, 24]", "dtype": "float32"},
        {"bytes": 12288, "shape": "[64, 48]", "dtype": "float32"},
    ]
    births = trace.sql("select shape from events where event = 'birth' and bytes = 12288").to_pylist()
    assert births == [
        {"shape": "[64, 48]" if recording.core() is None else None}
    ]  # and yet the page says it, of the line and of the buffer
    sites = build(trace)["sites"]
    assert {(site["shape"], site["dtype"]) for site in sites if site["bytes"] == 12288} == {("[64, 48]", "float32")}
    born = trace.sql("select epoch_us(time) as at from events where event = 'birth' and bytes = 12288").to_pylist()[0][
        "at"
    ]
    asked = {
        "at": str(born + 100_000 - trace.scanned.facts[0]),
        "device": str(trace.scanned.words("device").index("cpu")),
    }
    shown = Detail(trace, [site["number"] for site in sites]).alive(asked)
    assert [buffer["shape"] for buffer in shown["buffers"] if buffer["bytes"] == 12288] == ["[64, 48]"]


def test_shapes_are_told_apart(tmp_path):
    """All of up to three dimensions, each of a few sizes, in two types: no two go by one number."""
    sizes = (0, 1, 2, 3, 5, 7, 8, 16, 31, 64)
    shapes = [shape for dims in (1, 2, 3) for shape in itertools.product(sizes, repeat=dims) if all(shape)]
    kept = [torch.empty(shape, dtype=dtype) for shape in shapes for dtype in (torch.float32, torch.int16)]
    with tenure.trace(tmp_path / "trace"):
        for one in kept:
            one.add_(1)
    query = "select shape, dtype, bytes from buffers where uses > 0 and dtype in ('float32', 'int16')"
    found = tenure.load(tmp_path / "trace").sql(query).to_pylist()
    widths = {"float32": 4, "int16": 2}
    wrong = [row for row in found if math.prod(json.loads(row["shape"])) * widths[row["dtype"]] != row["bytes"]]
    assert not wrong
    assert {row["shape"] for row in found} >= {str(list(shape)) for shape in shapes}
