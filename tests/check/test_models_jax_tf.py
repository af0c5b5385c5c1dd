"""What the model files say of a library is true of the installed one."""

from pathlib import Path

import numpy
import pytest

from tenure.check.library_calls import effect, first_version_only

ROOT = Path(__file__).parents[2]


def _has(module, dotted):
    for part in dotted.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


def test_names_of_tensorflow_1():
    tf = pytest.importorskip("tensorflow")
    assert [name for name in first_version_only() if _has(tf, name)] == []
    gone = {name for name in first_version_only() if not _has(tf.compat.v1, name)}
    assert {name.partition(".")[0] for name in gone} <= {"contrib", "layers"}


def test_lines_about_functions_say_nothing_of_classes():
    assert effect("tensorflow.random.normal") == ("fresh",)
    assert effect("tensorflow.random.Generator.from_seed") == ("unknown",)
    assert effect("jax.random.PRNGKey") == ("tensor",)


def _lines(file):
    text = (ROOT / "src/tenure/check/models" / file).read_text()
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("name", [words[0] for words in _lines("numpy.txt")])
def test_numpy_functions_that_take_traced_arrays(name):
    jax = pytest.importorskip("jax")
    more = {"reshape": ((-1,),), "repeat": (2,), "swapaxes": (0, 1)}
    short = name.partition(".")[2]
    made = jax.jit(lambda x: getattr(numpy, short)(x, *more.get(short, ())))(numpy.ones((2, 2)))
    assert isinstance(made, jax.Array)


_INPUTS = {"1D": (2, 4, 3), "2D": (2, 4, 4, 3), "3D": (2, 4, 4, 4, 3)}
_ARGUMENTS = {
    "Embedding": (10, 2), "EinsumDense": ("abc,cd->abd", (None, 2)), "MultiHeadAttention": (2, 2),
    "GroupQueryAttention": (2, 2, 1), "Dense": (2,), "GRU": (2,), "LSTM": (2,), "SimpleRNN": (2,), "GroupNormalization": (1,),
}  # fmt: skip


@pytest.mark.parametrize("name", [words[0].rpartition(".")[2] for words in _lines("keras.txt")])
def test_layers_that_make_variables(name):
    keras = pytest.importorskip("keras")
    shape = _INPUTS.get(name[4:6] if name.startswith("Conv") and "LSTM" not in name else name[-2:], (2, 4, 3))
    if "LSTM" in name and name != "LSTM":
        shape = (2, 3, *_INPUTS[name[-2:]][1:])
    default = (
        ()
        if "Normalization" in name or name in ("PReLU", "AdditiveAttention")
        else (2,)
        if "Depthwise" in name
        else (2, 2)
    )
    layer = getattr(keras.layers, name)(*_ARGUMENTS.get(name, default))
    x = numpy.ones(shape, "int32" if name == "Embedding" else "float32")
    if name in ("MultiHeadAttention", "GroupQueryAttention"):
        layer(x, x)
    else:
        layer([x, x] if name == "AdditiveAttention" else x)
    assert layer.trainable_variables
