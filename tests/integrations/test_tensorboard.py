"""What is written for TensorBoard, read back by TensorBoard itself."""

import pytest

import tenure
from tenure.findings import Finding, Place
from tenure.integrations import tensorboard
from tenure.integrations.tensorboard import log


@pytest.fixture
def trace(torch, tmp_path):
    kept = []
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tenure.trace(tmp_path / "trace"):
        for _ in range(12):
            loss = model(torch.ones(8, 64)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.append(torch.ones(1024))
    return tenure.load(tmp_path / "trace")


@pytest.mark.parametrize("package", ["torch.utils.tensorboard", "tensorboardX"])
def test_writers(torch, trace, tmp_path, package):
    alive = torch.ones(10)
    module = pytest.importorskip(package)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with module.SummaryWriter(str(tmp_path / "runs")) as writer:
        log(trace, writer)
        log(tenure.memory(), writer, 3)
        log(tenure.memory(), writer, 4, prefix="mine")
    read = EventAccumulator(str(tmp_path / "runs"))
    read.Reload()
    found = {tag: [(one.step, one.value) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
    assert [step for step, _ in found["tenure/step_bytes"]] == list(range(12))
    bytes_of = [value for _, value in found["tenure/step_bytes"]]
    assert bytes_of[-1] - bytes_of[-2] == 4096  # what each step keeps
    assert all(most >= left for (_, most), left in zip(found["tenure/step_peak_bytes"], bytes_of, strict=True))
    assert found["tenure/peak_bytes"] == [(11, trace.peak().bytes)]
    ((step, nbytes),) = found["tenure/torch/cpu/bytes"]
    assert step == 3
    assert nbytes >= alive.nbytes
    assert [step for step, _ in found["mine/bytes"]] == [4]
    (text,) = read.Tensors("tenure/findings/text_summary")[0].tensor_proto.string_val
    assert b"TN3" in text


class Written:
    def __init__(self):
        self.scalars, self.texts = [], []

    def add_scalar(self, tag, value, step):
        self.scalars.append((tag, value, step))

    def add_text(self, tag, text, step):
        self.texts.append(text)


def test_anything_with_its_interface(trace):
    writer = Written()
    log(trace, writer, 99)
    assert ("tenure/peak_bytes", trace.peak().bytes, 99) in writer.scalars


def test_hostile_texts_are_a_block_of_code():
    odd = "</pre><script>alert(1)</script>\n# title\n```\x1b[31m"
    text = tensorboard._markdown([Finding("TN301", "loss", odd, (Place("birth", odd, 3, odd, odd),), reason=odd)])
    assert all(line.startswith("    ") for line in text.splitlines())
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("value", "writer", "words"),
    [
        (3, Written(), "log() takes the result of memory() or load(); got int"),
        (tenure.memory(), 3, "int is not a writer"),
    ],
)
def test_what_cannot_be_logged(value, writer, words):
    with pytest.raises(tenure.Unsupported) as error:
        log(value, writer)
    assert words in str(error.value)
