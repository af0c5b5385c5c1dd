"""The public data types: Site, TensorInfo, Link, Holder, Remnant, Remains, Usage and Memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

State = Literal["live", "disposed", "deleted", "donated", "symbolic", "out-of-scope"]
Fate = Literal["freed", "held", "already", "cannot"]


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's code.

    Attributes:
        file: The path of the source file.
        line: The line number, counted from 1.
        function: The name of the function, or "" if it is unknown.
    """

    file: str
    line: int
    function: str = ""

    @property
    def text(self) -> str:
        """The source line without surrounding whitespace, or "" if the source is not available."""
        from tenure import untrusted

        return untrusted.line(self.file, self.line).strip()

    @property
    def short(self) -> str:
        """The file's name without its folder, and the line: `train.py:31`."""
        return f"{self.file.replace(chr(92), '/').rpartition('/')[2]}:{self.line}"

    def __str__(self) -> str:
        inside = f" in {self.function}()" if self.function and not self.function.startswith("<") else ""
        return f"{self.file}:{self.line}{inside}"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """The description of a tensor. `tenure.info` returns it for live and for released tensors.

    Attributes:
        framework: "torch", "tensorflow", "jax" or "numpy".
        shape: The size of each dimension; None where it is unknown, as in a symbolic tensor.
        dtype: The element type, such as "float32".
        device: The device, such as "cpu" or "cuda:0".
        nbytes: The size of the tensor's elements in bytes.
        state: "live", "disposed", "deleted", "donated", "symbolic" or "out-of-scope".
        born: The `Site` where the tensor was created, or None if tenure did not record it. tenure records
            where tensors are created only inside a scope.
        ended: The `Site` where the tensor was released, or None.
        cause: What released it: "dispose", "scope exit", "session close", "delete", "donate", or "" while it is live.
        scope: The name of the scope or session that the tensor belongs to, or None.
        kind: The kind of handle, such as "tensor", "parameter", "array" or "variable".
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
        """A short description: `torch tensor float32[3, 4] on cpu`."""
        sizes = ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.framework} {self.kind} {self.dtype}[{sizes}] on {self.device}"

    def __str__(self) -> str:
        created = f", created at {self.born.short}" if self.born else ""
        scope = f", in scope {self.scope!r}" if self.scope and self.state == "live" else ""
        how = f" {ending(self)}" if self.cause or self.ended else ""
        return f"{self.label}, {size(self.nbytes)}, {self.state}{how}{created}{scope}"


def ending(tensor: TensorInfo) -> str:
    """Return what released a tensor, and where: `by exit of scope 'step' at held.py:23`; "" if it is live."""
    by = f"exit of scope {tensor.scope!r}" if tensor.cause == "scope exit" else tensor.cause
    return " ".join(([f"by {by}"] if by else []) + ([f"at {tensor.ended.short}"] if tensor.ended else []))


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a reference path.

    Attributes:
        text: The step as a user would write it, such as `history`, `[3]`, `.weight` or `autograd MulBackward0`.
        kind: What kind of reference it is, such as "local", "global", "attribute" or "item".
        site: The `Site` of a variable or frame, or None.
    """

    text: str
    kind: str
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """A reference path that keeps a buffer alive, from a root (a variable, a thread, native code) to the tensor.

    Attributes:
        kind: The kind of the root: "local", "global", "generator", "exception", "native", "object" and others.
        links: The steps of the path, a tuple of `Link` from the root to the tensor.
        nbytes: If the holder is a view of the buffer or an array over it, the bytes that it covers; otherwise None.
    """

    kind: str
    links: tuple[Link, ...]
    nbytes: int | None = field(default=None, compare=False)

    @property
    def site(self) -> Site | None:
        """The `Site` of the first link that has one, usually the root; None if no link has one."""
        return next((link.site for link in self.links if link.site), None)

    @property
    def path(self) -> tuple[str, ...]:
        """The texts of the links, root first."""
        return tuple(link.text for link in self.links)

    @property
    def name(self) -> str:
        """The path as a user would write it, such as `self.history[3]`, without kinds and places."""
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
        """A description of the reference cycle at the root; "" if the root is reachable."""
        return _CYCLES.get(self.links[0].kind, "") if self.links else ""

    def __str__(self) -> str:
        where = f" ({self.site.short})" if self.site else ""
        kind = [] if self.cycle and self.kind == "cycle" else [self.kind]
        return " ".join([*filter(None, [self.cycle and f"{self.cycle}:"]), *kind, f"{self.name}{where}"])


class Holders(list[Holder]):
    """A list of reference paths that prints one per line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no reference found"


# By the kind of a path's first link.
_CYCLES = {
    "cycle": "an unreachable reference cycle, freed at the next garbage collection (gc.collect())",
    "native cycle": "an unreachable reference cycle through native code, which gc.collect() may not free",
}


@dataclass(frozen=True)
class Remnant:
    """The result of a release for one buffer.

    Attributes:
        fate: "freed"; "held" if `holders` still keep the bytes; "already" if the handle was released before; "cannot"
            if the handle cannot be released, for `reason`.
        nbytes: The size of the buffer in bytes. If the handle was released before: what is still allocated of it, or 0.
        tensors: The `TensorInfo` of each handle of this buffer that the call was given, as it was before the release.
        reason: Why the bytes were not freed, or "".
        find: The function that searches for the holders; `holders` calls it once. Not part of the comparison.
    """

    fate: Fate
    nbytes: int
    tensors: tuple[TensorInfo, ...]
    reason: str = ""
    find: Callable[[], list[Holder]] | None = field(default=None, repr=False, compare=False)
    _found: list[Holder] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The reference paths that keep the buffer alive. The first read searches the whole heap."""
        if self.find is not None:
            self._found.extend(self.find())
            object.__setattr__(self, "find", None)
        return tuple(self._found)

    def lines(self, *, done: bool) -> Iterator[str]:
        """Yield the remnant as lines of text, followed by its holders.

        `done` is False for a preview, as from `tenure.remains`.
        """
        verb = {
            "freed": "freed" if done else "would be freed",
            "held": "retained" if done else "would be retained",
            "already": "still retained",
            "cannot": "cannot be released",
        }[self.fate]
        first = f"{size(self.nbytes)} {verb}"
        if self.fate == "already" and not self.nbytes:
            first = "already released"
        yield f"{first}: {self._what()}" + (f" ({self.reason})" if self.reason else "")
        if self.is_retained:
            for holder in self.holders:
                yield f"  retained by {holder}"

    @property
    def is_retained(self) -> bool:
        """True if bytes of the buffer stay allocated."""
        return self.fate in ("held", "cannot") or (self.fate == "already" and self.nbytes > 0)

    def _what(self) -> str:
        """Return the tensors, each once; the buffer, if it is larger than any of them; and where they were released."""
        labels = ", ".join(dict.fromkeys(tensor.label for tensor in self.tensors)) or "buffer"
        most = max((tensor.nbytes for tensor in self.tensors), default=self.nbytes)
        if 0 < most < self.nbytes:
            return f"buffer of {labels} ({size(most)} of it)"
        endings = dict.fromkeys(filter(None, map(ending, self.tensors))) if self.fate == "already" else ()
        return ", ".join([labels, *(f"released {text}" if self.nbytes else text for text in endings)])


@dataclass(frozen=True)
class Remains:
    """The result of `dispose`, `remains` or a scope's exit: which buffers were freed, and what retains the others.

    Iterate over it to get one `Remnant` per buffer, or print it to get a report. It describes the time when it was made,
    and what retains a buffer when that is first read. Call `tenure.remains(x)` again for the state now.

    Attributes:
        remnants: One `Remnant` per buffer.
        done: True after a release; False for a preview, as from `tenure.remains`.
    """

    remnants: tuple[Remnant, ...] = ()
    done: bool = True

    def _of(self, fate: Fate) -> tuple[Remnant, ...]:
        return tuple(remnant for remnant in self.remnants if remnant.fate == fate)

    @property
    def freed(self) -> tuple[Remnant, ...]:
        """The buffers whose bytes were freed."""
        return self._of("freed")

    @property
    def held(self) -> tuple[Remnant, ...]:
        """The buffers whose handle is released by this call but whose bytes are still referenced."""
        return self._of("held")

    @property
    def already(self) -> tuple[Remnant, ...]:
        """The buffers of handles that were released before, with the bytes that are still allocated."""
        return self._of("already")

    @property
    def cannot(self) -> tuple[Remnant, ...]:
        """The buffers of handles that cannot be released, each with its `reason`."""
        return self._of("cannot")

    @property
    def freed_bytes(self) -> int:
        """The number of bytes that were freed."""
        return sum(remnant.nbytes for remnant in self.freed)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that stay allocated: those of `held`, `cannot` and `already`."""
        return sum(remnant.nbytes for remnant in self.remnants if remnant.is_retained)

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The reference paths that keep any of these buffers alive."""
        return tuple(holder for remnant in self.remnants if remnant.is_retained for holder in remnant.holders)

    def __iter__(self) -> Iterator[Remnant]:
        return iter(self.remnants)

    def __len__(self) -> int:
        return len(self.remnants)

    def __str__(self) -> str:
        if not self.remnants:
            return "nothing to release: no tensors"
        verb = "freed" if self.done else "would be freed"
        first = f"{size(self.freed_bytes)} {verb}, {size(self.held_bytes)} retained"
        equal = Counter(tuple(remnant.lines(done=self.done)) for remnant in self.remnants)
        rows = [row for (head, *more), n in equal.items() for row in (f"{n} x {head}" if n > 1 else head, *more)]
        return "\n".join([first, *(f"  {row}" for row in rows)])


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of live tensors and of the buffers that they use.

    Attributes:
        tensors: The number of live handles.
        buffers: The number of distinct buffers that these handles use.
        nbytes: The size of these buffers in bytes.
    """

    tensors: int = 0
    buffers: int = 0
    nbytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.tensors + other.tensors, self.buffers + other.buffers, self.nbytes + other.nbytes)


@dataclass(frozen=True, slots=True)
class Memory:
    """Live tensors by framework and device. Bytes that several tensors share count once.

    Attributes:
        by: A `Usage` for each pair of framework and device.
        notes: What could not be counted, such as memory that only C++ code references.
    """

    by: dict[tuple[str, str], Usage]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> Usage:
        """The sum over all frameworks and devices."""
        return sum(self.by.values(), Usage())

    @property
    def tensors(self) -> int:
        """The number of live handles."""
        return self.total.tensors

    @property
    def buffers(self) -> int:
        """The number of distinct buffers that these handles use."""
        return self.total.buffers

    @property
    def nbytes(self) -> int:
        """The size of these buffers in bytes."""
        return self.total.nbytes

    def framework(self, name: str) -> Usage:
        """Return the `Usage` of one framework, over all devices."""
        return sum((usage for (owner, _), usage in self.by.items() if owner == name), Usage())

    def __str__(self) -> str:
        rows = [
            f"{owner} on {device}: {usage.tensors} tensors, {usage.buffers} buffers, {size(usage.nbytes)}"
            for (owner, device), usage in sorted(self.by.items())
        ]
        return "\n".join([*(rows or ["no live tensors"]), *(f"note: {note}" for note in self.notes)])


def size(nbytes: int) -> str:
    """Return bytes as readable text: `64.0 MiB`."""
    value = float(nbytes)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024 or unit == "PiB":
            return f"{int(value)} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError(nbytes)
