"""Watching torch: the native recorder where it can be built, else one written in Python."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tenure import native, stacks
from tenure.frameworks.base import Sink, Source
from tenure.frameworks.recording import torch_steps
from tenure.frameworks.torch.adapter import ADAPTER, is_symbolic

_EVENTS = ("birth", "use", "end")
_KINDS = ("parameter", "gradient", "optimizer state", "activation", "input")
CAUSES = ("last reference", "dispose", "scope exit")
_DEVICES = ("cpu", *(f"cuda:{index}" for index in range(64)))
_TYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
          "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
          "ComplexDouble": "complex128"}  # fmt: skip


def source() -> Source:
    """The recorder for this torch."""
    if core() is not None:
        return Native()
    from tenure.frameworks.recording.torch_python import InPython

    return InPython()


def core() -> Any:
    """The native recorder, or None; `native.reason("tenure_torch_recorder")` says why."""
    if stacks.core() is None:
        return None
    return _load("tenure_torch_recorder", "torch_recorder.cpp", [], ["-ltorch_cpu"])


def cuda_core() -> Any:
    """The part that watches CUDA's allocator, or None."""
    site = Path(torch.__path__[0]).parent
    toolkit = [Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    # Without a toolkit its headers come with torch's own dependencies, triton's being complete.
    places = [
        *toolkit,
        Path("/usr/local/cuda/include"),
        site / "triton/backends/nvidia/include",
        *site.glob("nvidia/cu*/include"),
    ]
    includes = [str(place) for place in places if place.is_dir()]
    return _load("tenure_torch_cuda_recorder", "torch_cuda_recorder.cpp", includes, ["-lc10_cuda"])


def _load(name: str, file: str, includes: list[str], flags: list[str]) -> Any:
    root = torch.__path__[0]
    return native.load(
        name,
        file,
        includes=[f"{root}/include", *includes],
        # NDEBUG as in torch's own builds: some of its classes are larger without.
        flags=["-std=c++20", "-DNDEBUG", f"-L{root}/lib", "-lc10", *flags, f"-Wl,-rpath,{root}/lib"],
        key=torch.__version__,
    )


class Native:
    """The native recorder as a `Source`."""

    name = "torch"
    native = True

    def start(self, sink: Sink) -> None:
        """Begin, with the tensors that are there already."""
        self._core = core()
        self._cuda: Any = None
        self._columns = Columns(self._core)
        self._stopped = False
        self._core.start(stacks.core()._capture)
        for tensor in ADAPTER.live():
            if not is_symbolic(tensor) and tensor.device.type == "cpu":
                self._core.seed(tensor._cdata)
        self._steps = torch_steps.Steps(sink, self._core.kind)
        if torch.version.cuda:
            torch.cuda._lazy_call(self._start_cuda)  # now, or when CUDA is first used

    def _start_cuda(self) -> None:
        built = None if self._stopped else cuda_core()
        if built is None:
            return
        segments = torch.cuda.memory_snapshot()
        blocks = [
            (block["address"], block["size"], segment["device"])
            for segment in segments
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]
        settings = " ".join(os.environ.get(name, "") for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"))
        built.start(self._core._tellers, blocks, "roundup" not in settings)
        self._cuda = built

    def drain(self) -> Any:
        """What came since."""
        if self._cuda is not None:
            self._cuda.settle(torch.cuda.device_count())
        self._columns.read(last=self._stopped)
        return self._columns

    def at_step(self, number: int) -> None:
        """The step that begins now."""
        self._core.step(number)

    def in_scope(self, name: str) -> None:
        """The scope that this thread is in from now on; empty for none."""
        self._core.scope(self._columns.scope(name))

    def ending(self, cause: str) -> None:
        """Why this thread ends what it ends from now on; empty for no reason of its own."""
        self._core.cause(CAUSES.index(cause) if cause in CAUSES else 0)

    def forked(self, sink: Sink) -> None:
        """Forget the parent's tables."""
        self._core.forked()
        self._cuda = None  # CUDA does not work in a child made by fork
        self._columns = Columns(self._core)
        self._steps.sink = sink

    def stop(self) -> None:
        """Take the hooks out again."""
        self._stopped = True
        self._steps.stop()
        if self._cuda is not None:
            self._cuda.settle(torch.cuda.device_count())
            self._cuda.stop()
        self._core.stop()


class Columns:
    """The native tables on their way into a stream: the recorder's numbers become those of the stream's words."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._raw: dict[str, bytes] = {}
        self._ops: list[str] = [""]
        self._shapes: list[tuple[str, str]] = [("", "")]
        self._threads: list[str] = [""]
        self._scopes: list[str] = [""]

    def read(self, *, last: bool) -> None:
        """Take what the recorder has."""
        self._raw = self._core.take(last)

    def take(self, dictionary: Any, since: Callable[[int], int], framework: str) -> tuple[dict[str, Any], int]:
        """What `Dictionary.batch` takes, and how many rows."""
        import pyarrow as pa

        raw, self._raw = self._raw, {}
        length = len(raw.get("time", b"")) // 8
        if not length:
            return {}, 0
        self._learn()

        def plain(name: str, kind: Any) -> Any:
            return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(raw[name])])

        def words(name: str, column: str, text: Callable[[int], str]) -> Any:
            """Each number that occurs is told once, and the rest is Arrow's work."""
            coded = plain(name, pa.int32()).dictionary_encode()
            texts = [text(number) for number in coded.dictionary.to_pylist()]
            known = [dictionary[column].number(one) if one else None for one in texts]
            return pa.array(known, pa.int32()).take(coded.indices)

        columns = {
            name: words(name, name, ("", *table).__getitem__)
            for name, table in (("event", _EVENTS), ("kind", _KINDS), ("cause", CAUSES), ("device", _DEVICES))
        }
        columns |= {
            name: plain(name, kind)
            for name, kind in {
                "bytes": pa.int64(), "step": pa.int32(), "buffer": pa.uint32(), "uses": pa.uint32(),
            }.items()
        }  # fmt: skip
        columns["op"] = words("op", "op", self._ops.__getitem__)
        columns["last_op"] = words("last_op", "op", self._ops.__getitem__)
        columns["shape"] = words("shape", "shape", lambda number: self._shapes[number][0])
        columns["dtype"] = words("shape", "dtype", lambda number: self._shapes[number][1])
        columns["thread"] = words("thread", "thread", self._threads.__getitem__)
        columns["scope"] = words("scope", "scope", self._scopes.__getitem__)
        for prefix in ("", "last_"):
            columns[f"{prefix}stack"] = words(f"{prefix}stack", "stack", stacks.text)
            columns[f"{prefix}site"] = words(f"{prefix}stack", "site", stacks.site)
        columns["time"] = _moments(plain("time", pa.int64()), since(0))
        columns["last_use"] = _moments(plain("last_use", pa.int64()), since(0))
        columns["framework"] = pa.array([dictionary["framework"].number(framework)] * length, pa.int32())
        return columns, length

    def scope(self, name: str) -> int:
        """The number of a scope."""
        if name not in self._scopes:
            self._scopes.append(name)
        return self._scopes.index(name)

    def _learn(self) -> None:
        """Ask for the words that are new."""
        self._ops += self._core.words("op", len(self._ops) - 1)
        self._shapes += [
            (sizes, _TYPES.get(kind, kind.lower())) for sizes, kind in self._core.words("shape", len(self._shapes) - 1)
        ]
        fresh = self._core.words("thread", len(self._threads) - 1)
        if fresh:
            names = {str(thread.ident): thread.name for thread in threading.enumerate()}
            self._threads += [names.get(number, f"thread {number}") for number in fresh]


def _moments(nanoseconds: Any, offset: int) -> Any:
    """Times as microseconds since 1970; 0 is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    moved = pc.add(pc.divide(nanoseconds, 1000), offset)
    return pc.if_else(pc.equal(nanoseconds, 0), pa.scalar(None, pa.int64()), moved).cast(pa.timestamp("us", tz="UTC"))
