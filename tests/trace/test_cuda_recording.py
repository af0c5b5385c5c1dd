"""What a trace of torch holds on a CUDA device: the allocator's own account, to the byte."""

import os
import random
import subprocess
import sys
import threading

import pytest

import tenure

torch = pytest.importorskip("torch")
pa = pytest.importorskip("pyarrow")

from tenure.trace.recorder import Recorder, active  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]


def traced(tmp_path, work):
    recorder = Recorder(tmp_path / "trace")
    recorder.start()
    if not recorder._sources["torch"].native:
        recorder.stop()
        pytest.skip("the recorder in Python knows storages, not the allocator's blocks")
    try:
        work()
    finally:
        recorder.stop()
    (file,) = recorder.folder.glob("*.arrows")
    return pa.ipc.open_stream(file).read_all().to_pylist()


def alive_at_marks(rows):
    """At each mark `bytes N`: N, and the CUDA bytes that the trace says are alive then."""
    live, found = {}, []
    for row in sorted(rows, key=lambda row: row["time"]):
        if row["event"] == "birth" and row["device"] == "cuda:0":
            live[row["buffer"]] = row["bytes"]
        elif row["event"] == "end":
            live.pop(row["buffer"], None)
        elif row["event"] == "mark" and (row["name"] or "").startswith("bytes "):
            found.append((int(row["name"].split()[1]), sum(live.values())))
    return found


def mark():
    tenure.mark(f"bytes {torch.cuda.memory_allocated()}")


@pytest.mark.parametrize("before", [False, True])
def test_bytes_alive_are_the_allocators_at_every_step(tmp_path, before):
    kept = torch.ones(3_333_333, device="cuda") if before else None

    def work():
        model = torch.nn.Sequential(*(torch.nn.Linear(777, 777) for _ in range(6))).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(8):
            loss = model(torch.randn(1000 + 37 * step, 777, device="cuda")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            del loss
            mark()

    found = alive_at_marks(traced(tmp_path, work))
    assert len(found) == 8
    assert all(counted == told for counted, told in found), found
    assert kept is None or kept.sum().item() == 3_333_333


def test_backward_runs_in_a_thread_without_python_and_has_a_site(tmp_path):
    def work():
        w = torch.ones(1000, 1000, device="cuda", requires_grad=True)
        (w.exp() @ w).sum().backward()

    rows = [row for row in traced(tmp_path, work) if row["event"] == "birth" and row["device"] == "cuda:0"]
    assert any("Backward" in (row["op"] or "") for row in rows)
    assert all(row["site"] for row in rows if "Backward" in (row["op"] or ""))


def test_record_stream_and_graphs_are_left_alone(tmp_path):
    def work():
        side = torch.cuda.Stream()
        x = torch.ones(1 << 20, device="cuda")
        with torch.cuda.stream(side):
            y = x * 2
        x.record_stream(side)
        del x
        torch.cuda.synchronize()
        assert y.sum().item() == 2 << 20
        graph, static = torch.cuda.CUDAGraph(), torch.zeros(1000, device="cuda")
        with torch.cuda.graph(graph):
            out = static * 3 + 1
        static.fill_(2)
        graph.replay()
        torch.cuda.synchronize()
        assert out.sum().item() == 7000
        mark()

    found = alive_at_marks(traced(tmp_path, work))
    assert all(counted == told for counted, told in found), found


def churn(seed, until=None):
    """Blocks of all sizes, small ones and such as the allocator does not split, a few of them alive at a time."""
    draws, kept = random.Random(seed), []
    for _ in range(600) if until is None else iter(until.is_set, True):
        kept.append(torch.empty(draws.randrange(1, draws.choice([2000, 6_000_000])), dtype=torch.uint8, device="cuda"))
        if len(kept) > 12:
            del kept[draws.randrange(len(kept))]
    return kept


def test_threads_that_allocate_at_once(tmp_path):
    kept = []

    def work():
        for turn in range(3):
            threads = [
                threading.Thread(target=lambda seed=seed: kept.append(churn(seed)))
                for seed in range(4 * turn, 4 * turn + 4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            mark()
            del kept[::2]
            mark()

    found = alive_at_marks(traced(tmp_path, work))
    assert len(found) == 6
    assert all(counted == told for counted, told in found), found


def test_recordings_begin_and_end_while_threads_allocate(tmp_path):
    over = threading.Event()
    threads = [threading.Thread(target=churn, args=(seed, over), daemon=True) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(6):
            rows = traced(tmp_path / str(turn), lambda: threads[0].join(0.2))
            assert any(row["event"] == "end" and row["device"] == "cuda:0" for row in rows)
    finally:
        over.set()
        for thread in threads:
            thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_a_look_comes_between_an_allocation_and_its_size(tmp_path):
    kept = []

    def work():
        for count in range(1, 9):
            torch.cuda.empty_cache()
            kept.append(torch.empty((11 << 20) + (count << 16), dtype=torch.uint8, device="cuda"))  # gets 12 MiB
            active()._sources["torch"]._core.crowds()
        mark()

    ((counted, told),) = alive_at_marks(traced(tmp_path, work))
    assert counted == told
    assert counted > sum(tensor.nbytes for tensor in kept)


def test_a_block_that_goes_before_anything_else_happens(tmp_path):
    def work():
        for count in range(1, 9):
            torch.cuda.empty_cache()
            kept = torch.empty((11 << 20) + (count << 16), dtype=torch.uint8, device="cuda")  # gets 12 MiB
            mark()
            del kept

    found = alive_at_marks(traced(tmp_path, work))
    assert len(found) == 8
    assert all(counted == told for counted, told in found), found


def test_an_allocator_that_says_nothing_is_told_of_and_the_program_goes_on(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\nx = torch.ones(1000, device='cuda')\nprint(x.shape, torch.cuda.get_allocator_backend())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tenure", "run", "-fo", str(tmp_path / "trace"), str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    )
    assert (done.returncode, done.stdout) == (0, "torch.Size([1000]) cudaMallocAsync\n"), done.stderr
    printed = " ".join(done.stderr.replace("tenure:", "").split())
    assert "memory on cuda devices is not recorded: torch's allocator 'cudaMallocAsync'" in printed
