"""What framework calls do, kept as data: a text file a framework, a line a function."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_TABLES = Path(__file__).parent / "models"
_ARRAYS = ("tensor", "fresh", "several", "alias", "same")

# Transformations of JAX and its libraries that trace only the operations that depend on their arguments.
LIFTING = frozenset(
    ["grad", "value_and_grad", "vmap", "jvp", "vjp", "jacfwd", "jacrev", "jacobian", "hessian", "linearize", "filter_grad",
     "filter_value_and_grad", "filter_vmap", "filter_jvp", "filter_vjp"]
)  # fmt: skip


@cache
def _table() -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    exact: dict[str, tuple[str, ...]] = {}
    under: dict[str, tuple[str, ...]] = {}
    for file in ("torch", "jax", "tensorflow", "keras", "numpy"):
        text = (_TABLES / f"{file}.txt").read_text(encoding="utf-8")
        for line in text.splitlines():
            words = line.split()
            if words and not words[0].startswith("#"):
                if words[0].endswith("*"):
                    under[words[0][:-1]] = tuple(words[1:])
                else:
                    exact[words[0]] = tuple(words[1:])
    return exact, under


@cache
def first_version_only() -> frozenset[str]:
    """Names below `tf.` that only TensorFlow 1 has."""
    text = (_TABLES / "tensorflow1.txt").read_text(encoding="utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


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
        # A capital makes a class, of which a line about functions says nothing.
        large = any(part[:1].isupper() for part in name[name.rfind(".", 0, len(prefix)) + 1 :].split("."))
        return ("unknown",) if large and under[prefix][0] in _ARRAYS else under[prefix]
    return _by_shape(name)


@cache
def _saving() -> dict[str, str]:
    text = (_TABLES / "torch_saves.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {name: words[0] for words in lines for name in words[1:]}


def saves(op: str) -> str:
    """What an operation of torch keeps for its backward pass: `nothing`, `output`, `inputs`, `some` or `unknown`."""
    return _saving().get(op, "unknown")


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


def family_of(name: str) -> str:
    """What kind of framework class `name` is, as far as lifetimes care."""
    last = name.rpartition(".")[2]
    if name.startswith("torch."):
        if last == "Function" and "autograd" in name:
            return "torch.Function"
        if ".nn." in name and last[:1].isupper() and last not in ("Parameter", "Buffer"):
            return "torch.Module"
        return "torch.Dataset" if last.endswith("Dataset") else ""
    if name.startswith(("pytorch_lightning.", "lightning.")) and last == "LightningModule":
        return "torch.Module"
    if name.startswith(("keras.", "tensorflow.")):
        if last == "Layer" or (".layers." in name and last[:1].isupper()):
            return "keras.Layer"
        if last in ("Model", "Sequential") and ("keras" in name):
            return "keras.Model"
        if name == "tensorflow.Module":
            return "tf.Module"
    if name in ("flax.linen.Module", "flax.nnx.Module", "equinox.Module", "haiku.Module"):
        return {"flax.linen.Module": "flax.Module", "flax.nnx.Module": "nnx.Module"}.get(name, name)
    if last == "Thread":
        return "Thread"
    return ""
