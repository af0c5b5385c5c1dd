"""Watching torch: the native recorder where it can be built, else one written in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import profiler

from tenure import native, stacks
from tenure.frameworks.base import Sink, Source
from tenure.frameworks.recording import torch_steps
from tenure.frameworks.recording.columns import CAUSES, Columns, Growing, Names
from tenure.frameworks.recording.torch_plumbing import PLUMBING
from tenure.frameworks.torch.adapter import ADAPTER

_EVENTS = ("birth", "use", "end", "step")
# Half of what the analyses tell apart: a program may have devices of other frameworks too.
_DEVICES = ("cpu", *(f"cuda:{index}" for index in range(32 if torch.version.cuda else 0)))
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
    if not torch.version.cuda:
        native.decline("tenure_torch_cuda_recorder", "this torch is built without CUDA")
        return None
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


def quiet_core() -> Any:
    """The native part that keeps operations without data from observers, or None."""
    if os.environ.get("TENURE_TORCH_CONSTANTS") == "0":
        native.decline("tenure_torch_quiet", "switched off by TENURE_TORCH_CONSTANTS=0")
        return None
    return _load("tenure_torch_quiet", "torch_quiet.cpp", [], ["-ltorch_cpu"])


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


_UNSEEN = "memory on {} devices is not recorded: {}; with TENURE_NATIVE=0 the tensors there are, at a higher cost"


class Quiet:
    """Keeps torch from telling observers of plumbing, except while torch.profiler is one of them."""

    def __init__(self, recorder: Any) -> None:
        self._core = quiet_core()
        self._recorder = recorder
        self._hooks: tuple[Any, Any] | None = None

    def start(self) -> None:
        """Begin, if this torch says when its profiler starts."""
        begin = getattr(profiler, "_run_on_profiler_start", None)
        end = getattr(profiler, "_run_on_profiler_stop", None)
        if self._core is None or begin is None or end is None:
            return
        self._hooks = (begin, end)
        profiler._run_on_profiler_start = self._around(begin, told=True)
        profiler._run_on_profiler_stop = self._around(end, told=False)
        self._core.tell(PLUMBING, bool(torch.autograd._profiler_enabled()))

    def _around(self, hook: Callable[[], None], *, told: bool) -> Callable[[], None]:
        def call() -> None:
            if self._hooks is not None:
                self._recorder.fresh()
                self._core.tell(PLUMBING, told)
            hook()

        return call

    def stop(self) -> None:
        """Have everything told again."""
        if self._hooks is not None:
            profiler._run_on_profiler_start, profiler._run_on_profiler_stop = self._hooks
            self._hooks = None
            self._core.tell(PLUMBING, True)


class Native:
    """The native recorder as a `Source`."""

    name = "torch"
    native = True
    tells_steps = True

    def start(self, sink: Sink) -> None:
        """Begin, with the tensors that are there already."""
        self._core = core()
        self._cuda: Any = None
        self._sink = sink
        self._begin()
        self._stopped = False
        self._steps: torch_steps.Steps | None = None
        self._quiet = Quiet(self._core)
        self._core.start(stacks.core()._capture, torch._C.TensorBase)
        self._quiet = Quiet(self._core)
        self._quiet.start()
        self._core.seed(list(ADAPTER.live()))
        self._steps = torch_steps.Steps(sink, self._core.kind, self._core)
        if torch.version.cuda or torch.version.hip:  # ROCm goes by the same name, and there is no part for it
            torch.cuda._lazy_call(self._start_cuda)  # now, or when CUDA is first used

    def _begin(self) -> None:
        tables = {"event": _EVENTS, "kind": torch_steps.KINDS, "cause": CAUSES, "device": _DEVICES}
        self._columns = Columns(self._core, tables, self._fresh)
        self._known = dict.fromkeys(("op", "shape", "thread"), 0)
        self._scopes = Names()
        self._new_scopes = Growing({"scope": self._scopes.words})

    def _fresh(self) -> dict[str, Iterable[Any]]:
        ops, shapes, threads = (self._words(what) for what in ("op", "shape", "thread"))
        return {
            "op": ops,
            "shape": [sizes for sizes, _ in shapes],
            "dtype": [_TYPES.get(kind, kind.lower()) for _, kind in shapes],
            "thread": map(int, threads),
            **self._new_scopes.fresh(),
        }

    def _words(self, what: str) -> list[Any]:
        found: list[Any] = self._core.words(what, self._known[what])
        self._known[what] += len(found)
        return found

    def _start_cuda(self) -> None:
        """Called by torch when CUDA starts: what fails here would fail in the user's program."""
        if self._stopped:
            return
        built = cuda_core()
        if built is None:
            self._sink.trouble(_UNSEEN.format("cuda", native.reason("tenure_torch_cuda_recorder")))
            return
        try:
            blocks = [
                (block["address"], block["size"], segment["device"])
                for segment in torch.cuda.memory_snapshot()
                for block in segment["blocks"]
                if block["state"] == "active_allocated"
            ]
            settings = " ".join(os.environ.get(name, "") for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"))
            built.start(self._core._tellers, blocks, "roundup" not in settings)
        except RuntimeError:  # as of cudaMallocAsync and of allocators that are plugged in
            allocator = torch.cuda.get_allocator_backend()
            self._sink.trouble(_UNSEEN.format("cuda", f"torch's allocator {allocator!r} reports no allocations"))
            return
        self._cuda = built

    def drain(self) -> Any:
        """What came since."""
        self._settle()
        for device in self._core.unseen():
            self._sink.trouble(_UNSEEN.format(device, "tenure has no native recorder for them"))
        self._columns.read(self._stopped)
        return self._columns

    def _settle(self) -> None:
        """Have the size of the newest block told, which the allocator itself counts only after it has told of the block."""
        if self._cuda is not None:
            self._cuda.settle(torch.cuda.device_count())

    def crowds(self) -> Iterable[tuple[int, int, int, int, int]]:
        """The living in sums by the stack they were born at: itself, count, bytes, last use, steps (a bit each)."""
        self._settle()
        return zip(*(memoryview(column).cast("q") for column in self._core.crowds()), strict=True)

    def members(self, places: list[int]) -> list[int]:
        """The addresses of those that were born at these stacks, the oldest first."""
        return list(memoryview(self._core.members(places)).cast("q"))

    def graphs(self) -> list[int]:
        """Return the stacks whose operations added nodes to an autograd graph."""
        return list(memoryview(self._core.graphs()).cast("q"))

    def crossed(self) -> int | None:
        """In how many steps an operation took a tensor whose graph is of an earlier step; None if that is not seen."""
        found: int = self._core.crossed()
        return found

    def on_failure(self, call: Callable[[int], None] | None) -> None:
        """Have this called with the bytes of an allocation that fails."""
        self._core.on_failure(call)

    def at_step(self, number: int, *, tell: bool) -> None:
        """The step that begins now."""
        self._core.step(number, tell)

    def in_scope(self, name: str) -> None:
        """The scope that this thread is in from now on; empty for none."""
        self._core.scope(self._scopes.number(name))

    def ending(self, cause: str) -> None:
        """Why this thread ends what it ends from now on; empty for no reason of its own."""
        self._core.cause(CAUSES.index(cause) if cause in CAUSES else 0)

    def forked(self, sink: Sink) -> None:
        """Forget the parent's tables."""
        self._core.forked()
        self._cuda = None  # CUDA does not work in a child made by fork
        self._begin()
        self._sink = sink
        if self._steps is not None:
            self._steps.sink = sink

    def stop(self) -> None:
        """Take the hooks out again."""
        self._stopped = True
        if self._steps is not None:
            self._steps.stop()
        self._settle()
        if self._cuda is not None:
            self._cuda.stop()
        self._quiet.stop()
        self._core.stop()
