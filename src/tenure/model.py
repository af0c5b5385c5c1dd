"""The words of the project as types: a site, a tensor's description, a holder, and what remains of a buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

State = Literal["live", "disposed", "deleted", "donated", "symbolic", "out-of-scope"]
Fate = Literal["freed", "held", "already", "cannot"]


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's code: file, line and function."""

    file: str
    line: int
    function: str = ""

    @property
    def text(self) -> str:
        """The source line, stripped; empty where the source is not at hand."""
        from tenure import untrusted

        return untrusted.line(self.file, self.line).strip()

    @property
    def short(self) -> str:
        """The site as people say it: `train.py:31`."""
        return f"{self.file.replace(chr(92), '/').rpartition('/')[2]}:{self.line}"

    def __str__(self) -> str:
        inside = f" in {self.function}()" if self.function and not self.function.startswith("<") else ""
        return f"{self.file}:{self.line}{inside}"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What a tensor is, which also an ended one can still answer.

    `born` and `ended` are None where nobody saw it happen; `cause` says what ended it
    ("dispose", "scope exit", "session close", "delete", "donate").
    """

    framework: str
    shape: tuple[int | None, ...]
    dtype: str
    device: str
    nbytes: int
    state: State = "live"
    born: Site | None = None
    ended: Site | None = None
    cause: str = ""
    scope: str | None = None
    kind: str = "tensor"

    @property
    def label(self) -> str:
        """The tensor in a few words: `torch.float32[3, 4] on cpu`."""
        sizes = ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.framework} {self.kind} {self.dtype}[{sizes}] on {self.device}"


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a holder path, as the user would write it (`history`, `[3]`, `.weight`, `autograd MulBackward0`)."""

    text: str
    kind: str
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """Who keeps a buffer alive: a path from a root (a local, a global, a thread, native code) to the tensor.

    `kind` is the root's kind: "local", "global", "generator", "exception", "native", "object", ...
    `links` run from the root to the tensor; `name` joins those that read as one expression (`self.history[3]`).
    `nbytes` is how much of the buffer the holder itself needs, where it is a view of it or an array on it.
    """

    kind: str
    links: tuple[Link, ...]
    nbytes: int | None = field(default=None, compare=False)

    @property
    def site(self) -> Site | None:
        """Where the root lives, if that is known."""
        return next((link.site for link in self.links if link.site), None)

    @property
    def path(self) -> tuple[str, ...]:
        """The links as texts, root first."""
        return tuple(link.text for link in self.links)

    @property
    def name(self) -> str:
        """The path as the user would write it, without the kinds and places."""
        parts: list[str] = []
        for link in self.links:
            joined = link.text.startswith((".", "["))
            if joined and parts:
                parts[-1] += link.text
            else:
                parts.append(link.text)
        return " → ".join(parts)

    @property
    def cycle(self) -> str:
        """What the reference cycle at the root is and how it ends; empty if the root is reachable."""
        return _CYCLES.get(self.links[0].kind, "") if self.links else ""

    def __str__(self) -> str:
        where = f" ({self.site.short})" if self.site else ""
        kind = [] if self.cycle and self.kind == "cycle" else [self.kind]
        return " ".join([*filter(None, [self.cycle and f"{self.cycle}:"]), *kind, f"{self.name}{where}"])


# By the kind of a path's first link.
_CYCLES = {
    "cycle": "an unreachable reference cycle, freed at the next garbage collection (gc.collect())",
    "native cycle": "an unreachable reference cycle through native code, which gc.collect() may not free",
}


@dataclass(frozen=True)
class Remnant:
    """What became of one buffer.

    `fate` is "freed", "held" (by `holders`), "already" (ended before) or "cannot" (for `reason`).
    """

    fate: Fate
    nbytes: int
    tensors: tuple[TensorInfo, ...]
    reason: str = ""
    find: Callable[[], list[Holder]] | None = field(default=None, repr=False, compare=False)
    _found: list[Holder] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Who keeps it, searched for when first asked: a search reads the whole heap, an exit must not."""
        if self.find is not None:
            self._found.extend(self.find())
            object.__setattr__(self, "find", None)
        return tuple(self._found)

    def lines(self, *, done: bool) -> Iterator[str]:
        """The remnant as lines of text, the holders below it."""
        verb = {
            "freed": "freed" if done else "would free",
            "held": "held, 0 bytes freed" if done else "would stay held",
            "already": "already ended",
            "cannot": "cannot be ended",
        }[self.fate]
        what = ", ".join(tensor.label for tensor in self.tensors) or "buffer"
        yield f"{size(self.nbytes)} {verb}: {what}" + (f" ({self.reason})" if self.reason else "")
        if self.fate in ("held", "cannot"):
            for holder in self.holders:
                yield f"  held by {holder}"


@dataclass(frozen=True)
class Remains:
    """What is left after `dispose` or a scope's exit (`done`), or what would be left (`remains`), buffer by buffer."""

    remnants: tuple[Remnant, ...] = ()
    done: bool = True

    def _of(self, fate: Fate) -> tuple[Remnant, ...]:
        return tuple(remnant for remnant in self.remnants if remnant.fate == fate)

    @property
    def freed(self) -> tuple[Remnant, ...]:
        """Buffers whose bytes were given back."""
        return self._of("freed")

    @property
    def held(self) -> tuple[Remnant, ...]:
        """Buffers whose handle ended but whose bytes somebody else still needs."""
        return self._of("held")

    @property
    def already(self) -> tuple[Remnant, ...]:
        """Buffers of handles that had ended before."""
        return self._of("already")

    @property
    def cannot(self) -> tuple[Remnant, ...]:
        """Buffers of handles that cannot be ended, each with its reason."""
        return self._of("cannot")

    @property
    def freed_bytes(self) -> int:
        """Bytes given back."""
        return sum(remnant.nbytes for remnant in self.freed)

    @property
    def held_bytes(self) -> int:
        """Bytes still held, by others or because the handle cannot be ended."""
        return sum(remnant.nbytes for remnant in (*self.held, *self.cannot))

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Everybody who holds any of it."""
        return tuple(holder for remnant in (*self.held, *self.cannot) for holder in remnant.holders)

    def __iter__(self) -> Iterator[Remnant]:
        return iter(self.remnants)

    def __len__(self) -> int:
        return len(self.remnants)

    def __str__(self) -> str:
        if not self.remnants:
            return "nothing to end: no tensors"
        verb = "freed" if self.done else "would free"
        first = f"{verb} {size(self.freed_bytes)}, {size(self.held_bytes)} held"
        rows = [line for remnant in self.remnants for line in remnant.lines(done=self.done)]
        return "\n".join([first, *(f"  {row}" for row in rows)])


@dataclass(frozen=True, slots=True)
class Usage:
    """Live tensors, the distinct buffers behind them, and those buffers' bytes."""

    tensors: int = 0
    buffers: int = 0
    nbytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.tensors + other.tensors, self.buffers + other.buffers, self.nbytes + other.nbytes)


@dataclass(frozen=True, slots=True)
class Memory:
    """Live tensors by framework and device; bytes that several tensors share count once.

    `notes` say what could not be seen (memory only C++ holds, arrays the collector does not track).
    """

    by: dict[tuple[str, str], Usage]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> Usage:
        """All frameworks and devices together."""
        return sum(self.by.values(), Usage())

    @property
    def tensors(self) -> int:
        """Live handles."""
        return self.total.tensors

    @property
    def buffers(self) -> int:
        """Distinct buffers behind them."""
        return self.total.buffers

    @property
    def nbytes(self) -> int:
        """Their bytes."""
        return self.total.nbytes

    def framework(self, name: str) -> Usage:
        """One framework's share, over all devices."""
        return sum((usage for (owner, _), usage in self.by.items() if owner == name), Usage())

    def __str__(self) -> str:
        rows = [
            f"{owner} on {device}: {usage.tensors} tensors, {usage.buffers} buffers, {size(usage.nbytes)}"
            for (owner, device), usage in sorted(self.by.items())
        ]
        return "\n".join([*(rows or ["no live tensors"]), *(f"note: {note}" for note in self.notes)])


def size(nbytes: int) -> str:
    """Bytes as people read them: `64.0 MiB`."""
    value = float(nbytes)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024 or unit == "PiB":
            return f"{int(value)} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError(nbytes)
