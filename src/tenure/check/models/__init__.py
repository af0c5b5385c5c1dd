"""What framework calls do, kept as data: a text file a framework, a line a function."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def _table() -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    exact: dict[str, tuple[str, ...]] = {}
    under: dict[str, tuple[str, ...]] = {}
    for file in ("torch", "jax", "tensorflow"):
        text = (Path(__file__).parent / f"{file}.txt").read_text(encoding="utf-8")
        for line in text.splitlines():
            words = line.split()
            if words and not words[0].startswith("#"):
                if words[0].endswith("*"):
                    under[words[0][:-1]] = tuple(words[1:])
                else:
                    exact[words[0]] = tuple(words[1:])
    return exact, under


@cache
def effect(name: str) -> tuple[str, ...]:
    """The words for a function; `("unknown",)` if nothing is known of it."""
    name = name.replace("tensorflow.compat.v1.", "tensorflow.").replace("tensorflow.compat.v2.", "tensorflow.")
    exact, under = _table()
    found = exact.get(name)
    if found is not None:
        return found
    prefix = max((p for p in under if name.startswith(p)), key=len, default=None)
    if prefix is not None:
        return under[prefix]
    return _by_shape(name)


def _by_shape(name: str) -> tuple[str, ...]:
    head, _, last = name.rpartition(".")
    large = last[:1].isupper()
    if name.startswith("torch."):
        if head == "torch.nn" or head.startswith("torch.nn.modules"):
            return ("module",) if large else ("unknown",)
        if head in ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft", "torch.sparse"):
            return ("unknown",) if large else ("tensor",)
    if name.startswith("tensorflow."):
        spaces = ("tensorflow", "tensorflow.math", "tensorflow.nn", "tensorflow.linalg", "tensorflow.strings",
                  "tensorflow.image", "tensorflow.signal", "tensorflow.losses", "tensorflow.sets")  # fmt: skip
        if head in spaces:
            return ("unknown",) if large else ("tensor",)
    if name.startswith("keras.") and (head.endswith((".ops", ".activations"))):
        return ("keras_op",)
    return ("unknown",)
