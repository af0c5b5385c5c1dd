"""A long trace from a short one: the same events again and again, each turn with buffers, times and steps of its own.

    replicate.py TRACE FOLDER EVENTS [STREAMS]

With several streams, the turns are dealt out to as many ranks, which then ran one after another; with `split` instead
of a number of events, the events of the trace itself are dealt out, each buffer with all its events to one rank.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import compute

from tenure.trace import writer
from tenure.trace.events import schema
from tenure.trace.reader import load


def batches(trace: Path) -> tuple[list[pa.RecordBatch], dict[str, str]]:
    """The batches of its largest stream with the whole dictionaries in each, and what the stream says of itself."""
    stream = max(load(trace).streams, key=lambda one: one.process.events)
    with pa.ipc.open_stream(str(stream.process.path)) as reader:
        about = {key.decode()[7:]: value.decode() for key, value in reader.schema.metadata.items()}
        found = [reader.read_next_batch() for _ in range(stream.batches)]
    # Words keep their numbers through a stream, so the longest dictionary of a column has them all.
    whole = [
        max((batch.column(at).dictionary for batch in found), key=len) if pa.types.is_dictionary(field.type) else None
        for at, field in enumerate(schema())
    ]
    return [
        pa.record_batch(
            [
                array if words is None else pa.DictionaryArray.from_arrays(array.indices, words)
                for array, words in zip(batch.columns, whole, strict=True)
            ],
            schema=schema(),
        )
        for batch in found
    ], about


def shifted(batch: pa.RecordBatch, turn: int, buffers: int, span: int, steps: int) -> pa.RecordBatch:
    """The batch as it would be in a later turn."""
    moved = {
        "buffer": compute.add(batch.column("buffer"), pa.scalar(turn * buffers, pa.uint32())),
        "step": compute.add(batch.column("step"), pa.scalar(turn * steps, pa.int32())),
    }
    for name in ("time", "last_use"):
        moved[name] = compute.add(batch.column(name), pa.scalar(turn * span, pa.duration("us")))
    return pa.record_batch([moved.get(name, batch.column(name)) for name in batch.schema.names], schema=schema())


def replicate(trace: Path, folder: Path, events: int, streams: int = 1) -> int:
    """Write at least so many events; gives how many."""
    parts, about = batches(trace)
    whole = pa.Table.from_batches(parts)
    first, last = compute.min_max(whole["time"]).as_py().values()
    span = round((last - first).total_seconds() * 1e6) + 1000
    low, high = compute.min_max(whole["buffer"]).as_py().values()
    buffers = high - low + 1
    steps = (compute.max(whole["step"]).as_py() or 0) + 1
    turns = -(-events // whole.num_rows)
    _begin(folder)
    for rank in range(streams):
        with_rank = {"rank": str(rank), "world_size": str(streams)} if streams > 1 else {}
        out = writer.Stream(folder, f"events-{rank + 1}", {**about, "pid": str(rank + 1), **with_rank})
        for turn in range(rank * turns // streams, (rank + 1) * turns // streams):
            for batch in parts:
                out.write(shifted(batch, turn, buffers, span, steps))
        out.close()
    for told in trace.glob("*.jsonl"):  # suspects, which the analysis of leaks looks up in the events
        shutil.copy(told, folder)
    return turns * whole.num_rows


def split(trace: Path, folder: Path, streams: int) -> int:
    """Deal the events of a trace out, each buffer to one rank; what belongs to no buffer goes to the first."""
    stream = max(load(trace).streams, key=lambda one: one.process.events)
    _begin(folder)
    outs = []
    with pa.ipc.open_stream(str(stream.process.path)) as reader:
        about = {key.decode()[7:]: value.decode() for key, value in reader.schema.metadata.items()}
        for rank in range(streams):
            told = {**about, "pid": str(rank + 1), "rank": str(rank), "world_size": str(streams)}
            outs.append(writer.Stream(folder, f"events-{rank + 1}", told))
        for _ in range(stream.batches):
            batch = reader.read_next_batch()
            numbers = compute.fill_null(batch.column("buffer"), 0)
            turns = compute.multiply(compute.divide(numbers, streams), streams)
            ranks = compute.subtract(numbers, turns)
            for rank, out in enumerate(outs):
                out.write(batch.filter(compute.equal(ranks, rank)))
    for out in outs:
        out.close()
    return stream.process.events


def _begin(folder: Path) -> None:
    folder.mkdir(parents=True)
    about = {"format": "tenure trace", "version": 1, "command": ["replicate.py"], "python": "", "pid": 1}
    (folder / "meta.json").write_text(json.dumps(about))


if __name__ == "__main__":
    source, target, amount = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    ranks = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    print(split(source, target, ranks) if amount == "split" else replicate(source, target, int(amount), ranks))
