"""TensorBoard, and anything with its writer's interface.

    writer = torch.utils.tensorboard.SummaryWriter("runs")
    log(tenure.memory(), writer, step)                # bytes, tensors and buffers by framework and device
    log(tenure.load("tenure-train"), writer)          # bytes by step, the peak, and the findings as text

Takes torch's and tensorboardX's `SummaryWriter`, a writer of `tf.summary.create_file_writer`, the module `tf.summary`
where a writer is the default, and whatever has `add_scalar(tag, value, step)` and `add_text(tag, text, step)`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any, Protocol, runtime_checkable

from tenure.errors import Unsupported
from tenure.findings import Finding
from tenure.model import Memory
from tenure.traces import Trace
from tenure.views.formats import full

Scalar = tuple[str, float, int]

_BY_STEP = """
    with ends as (select step, max(ended) as ended from steps group by step),
    parts as (select step, ended, lag(ended) over (order by ended) as began from ends),
    inside as (
        select step, max(total) as most from parts join live on time <= ended and (began is null or time > began)
        group by step
    )
    select parts.step, live.total::bigint as bytes, greatest(coalesce(most, 0), live.total)::bigint as most
    from parts asof join live on live.time <= parts.ended left join inside using (step) order by parts.step"""


@runtime_checkable
class Writer(Protocol):
    """An object that accepts numbers and texts."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int, /) -> Any:
        """Add a number at a step."""

    def add_text(self, tag: str, text_string: str, global_step: int, /) -> Any:
        """Add a text in Markdown."""


def log(value: Trace | Memory, writer: Any, step: int | None = None, *, prefix: str = "tenure") -> None:
    """Write what is alive, or a whole trace, to a writer.

    A `Memory` is one point of each curve, at `step` (default: 0). A `Trace` has its own steps; its peak and its
    findings are written at `step`, or at its last one.

    Raises:
        Unsupported: `value` is neither, or `writer` takes no numbers.
    """
    target = adapted(writer)
    if isinstance(value, Memory):
        scalars: Iterable[Scalar] = _memory(value, step or 0)
        texts: list[Finding] = []
        last = step or 0
    elif isinstance(value, Trace):
        curve = list(_steps(value))
        last = step if step is not None else max((at for _, _, at in curve), default=0)
        scalars = [*curve, *_peak(value, last)]
        texts = value.findings()
    else:
        raise Unsupported(f"log() takes the result of memory() or load(); got {type(value).__name__}")
    for tag, number, at in scalars:
        target.add_scalar(f"{prefix}/{tag}", number, at)
    if texts:
        target.add_text(f"{prefix}/findings", _markdown(texts), last)


def adapted(writer: Any) -> Writer:
    """Return a writer as this module uses it."""
    if isinstance(writer, Writer):
        return writer
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is not None and hasattr(writer, "as_default"):
        return _TensorFlow(tensorflow.summary, writer)
    if callable(getattr(writer, "scalar", None)) and callable(getattr(writer, "text", None)):
        return _TensorFlow(writer, None)
    raise Unsupported(
        f"{type(writer).__name__} is not a writer: it lacks add_scalar and add_text, which a SummaryWriter has"
    )


class _TensorFlow:
    """TensorFlow's functions as a writer."""

    def __init__(self, summary: Any, writer: Any) -> None:
        self._summary = summary
        self._writer = writer

    def add_scalar(self, tag: str, scalar_value: float, global_step: int, /) -> None:
        with self._inside():
            self._summary.scalar(tag, scalar_value, step=global_step)

    def add_text(self, tag: str, text_string: str, global_step: int, /) -> None:
        with self._inside():
            self._summary.text(tag, text_string, step=global_step)

    def _inside(self) -> Any:
        return nullcontext() if self._writer is None else self._writer.as_default()


def _memory(value: Memory, step: int) -> Iterator[Scalar]:
    for (framework, device), usage in sorted(value.by.items()):
        where = f"{framework}/{device.replace(':', '_')}"
        yield f"{where}/bytes", usage.nbytes, step
        yield f"{where}/tensors", usage.tensors, step
        yield f"{where}/buffers", usage.buffers, step
    yield "bytes", value.nbytes, step


def _steps(value: Trace) -> Iterator[Scalar]:
    """Return the bytes alive after each step, and the most during it, over all processes and devices."""
    rows = value.sql(_BY_STEP).to_pylist()
    for row in rows:
        yield "step_bytes", row["bytes"], row["step"]
        yield "step_peak_bytes", row["most"], row["step"]


def _peak(value: Trace, step: int) -> Iterator[Scalar]:
    peak = value.peak()
    if peak is not None:
        yield "peak_bytes", peak.bytes, step
        yield "peak_past_last_use_bytes", peak.past, step


def _markdown(found: list[Finding]) -> str:
    """Return the findings as a block of code, so that names and paths in it are neither Markdown nor HTML."""
    return "\n".join(f"    {line}" for line in full.render(found).splitlines())
