"""The same promises on a CUDA device, where bytes are counted by the caching allocator."""

import gc
import threading

import pytest
import torch

import tenure

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
MEGA = 1 << 20


def used():
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


@pytest.fixture(autouse=True)
def settled():
    tenure.dispose(torch.ones(1, device="cuda"))  # without a compiler the first one leaves a poisoned byte behind
    gc.collect()
    yield
    torch.cuda.synchronize()  # an illegal access would show here, and poison the context for good


def make(count=16 * MEGA, **options):
    return torch.ones(count, device="cuda", **options)


def test_dispose_gives_the_bytes_back_now():
    before = used()
    x = torch.ones(256 * MEGA, device="cuda")  # 1 GiB
    assert used() - before == 1 << 30
    remains = tenure.dispose(x)
    assert used() == before
    assert remains.freed_bytes == 1 << 30
    assert x.shape == (256 * MEGA,)
    assert x.device.type == "cuda"
    with pytest.raises(tenure.TensorReleased, match="cuda:0"):
        x + 1
    assert "<released torch tensor" in repr(x)


def test_a_view_keeps_the_bytes_and_stays_right():
    before = used()
    x = make()
    view = x[5:]
    assert tenure.dispose(x).held_bytes == 64 * MEGA
    assert view.sum().item() == 16 * MEGA - 5
    del view
    assert used() == before


def test_a_dlpack_export_keeps_the_bytes_and_stays_right():
    before = used()
    x = make()
    other = torch.from_dlpack(x)
    assert tenure.dispose(x).held_bytes == 64 * MEGA
    assert other.sum().item() == 16 * MEGA
    del other
    assert used() == before


def test_saved_for_backward_survives_to_the_bit():
    before = used()
    x, weight = make(), make(requires_grad=True)
    loss = (x * weight).sum()
    assert tenure.dispose(x).held_bytes == 64 * MEGA
    loss.backward()
    assert torch.equal(weight.grad, torch.ones_like(weight))
    del loss, weight
    assert used() == before


def test_a_scope_around_training_steps_ends_what_was_born_and_changes_no_number():
    def train(scoped):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 1)).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        losses = []
        for _ in range(5):
            scope = tenure.scope("step")
            if scoped:
                scope.__enter__()
            loss = model(torch.randn(32, 64, device="cuda")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if scoped:
                scope.__exit__(None, None, None)
                assert tenure.info(loss).state == "disposed"
        return losses, [p.detach().clone() for p in model.state_dict().values()]

    plain, scoped = train(False), train(True)
    assert plain[0] == scoped[0]
    assert all(torch.equal(a, b) for a, b in zip(plain[1], scoped[1], strict=True))


def test_freed_memory_is_reused_and_the_ended_handle_never_sees_it():
    x = make()
    tenure.dispose(x)
    again = make().mul_(3)
    with pytest.raises(tenure.TensorReleased):
        x.sum()
    assert again[0].item() == 3


def test_kernels_in_flight_finish_with_the_right_numbers():
    side = torch.cuda.Stream()
    x = torch.randn(4096, 4096, device="cuda")
    expected = x @ x
    torch.cuda.synchronize()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            result = x @ x
        x.record_stream(side)
    tenure.dispose(x)
    noise = [torch.full((4096, 4096), 7.0, device="cuda") for _ in range(4)]
    torch.cuda.synchronize()
    assert torch.equal(result, expected)
    assert len(noise) == 4


def test_disposed_while_another_thread_computes_with_it():
    x = torch.randn(2048, 2048, device="cuda")
    started, stopped = threading.Event(), []

    def work(tensor):
        tensor.sum()  # torch warns if cuBLAS is the first to need the thread's CUDA context
        try:
            while True:
                tensor @ tensor
                started.set()
        except tenure.TensorReleased as error:
            stopped.append(error)

    thread = threading.Thread(target=work, args=(x,))
    thread.start()
    assert started.wait(60)
    tenure.dispose(x)
    thread.join()
    assert len(stopped) == 1


def test_cuda_graph_replays_after_its_temporaries_were_ended():
    static = torch.zeros(1024, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        (static * 2 + 1).sum()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with tenure.scope() as scope, torch.cuda.graph(graph):
        temporary = static * 2
        out = scope.keep(temporary + 1)
    static.fill_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert out[0].item() == 7
    assert tenure.info(temporary).state == "disposed"


def test_compiled_function_in_a_scope():
    compiled = torch.compile(lambda t: (t * 2).relu().sum())
    x = make(1024, requires_grad=True)
    for _ in range(3):
        with tenure.scope():
            compiled(x).backward()
    assert torch.equal(x.grad, torch.full_like(x, 6.0))


def test_memory_counts_each_storage_once():
    gc.collect()
    before = tenure.memory().framework("torch").nbytes
    x = make()
    view = x[1:]
    assert tenure.memory().framework("torch").nbytes - before == 64 * MEGA
    assert view is not None


def test_jax_on_the_same_device():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    x = jax.numpy.ones((1024, 1024))
    assert tenure.dispose(x).freed_bytes == 4 * MEGA
    with pytest.raises(tenure.TensorReleased):
        x + 1
    with tenure.scope():
        y = jax.numpy.ones(5) * 2
        z = tenure.keep(y + 1)
    assert tenure.info(y).state == "disposed"
    assert z.sum() == 15
