"""Programs that really fail in tensorflow, each explained live and from the text of its traceback."""

import traceback

import pytest
from programs import check, failed, from_text, programs

import tenure

pytest.importorskip("tensorflow")


@pytest.mark.parametrize("program", programs("tensorflow"), ids=str)
def test_explained(program, tmp_path):
    check(program, tmp_path / f"{program.name}.py")


# A name has a first value that is not a tensor, and a traced function gives it another one.
STORED_LATER = {
    "a global": """
import tensorflow as tf
x = None
@tf.function
def traced(a):
    global x
    x = tf.constant(1.0) + a  # <birth>
    return a
traced(tf.constant(2.0))
print(x + 1)  # <use>
""",
    "a variable of the function around": """
import tensorflow as tf
def outer():
    x = 0
    @tf.function
    def traced(a):
        nonlocal x
        x = tf.constant(1.0) + a  # <birth>
        return a
    traced(tf.constant(2.0))
    return x + 1  # <use>
outer()
""",
    "an attribute": """
import tensorflow as tf
class Model:
    x = None
    @tf.function
    def traced(self, a):
        self.x = tf.constant(1.0) + a  # <birth>
        return a
model = Model()
model.traced(tf.constant(2.0))
print(model.x + 1)  # <use>
""",
}


@pytest.mark.parametrize("name", STORED_LATER)
def test_a_line_that_cannot_have_created_the_tensor_is_not_named(name, tmp_path):
    path, text = tmp_path / "program.py", STORED_LATER[name]
    error, said = failed(text, path)
    named = {number for number, line in enumerate(text.splitlines(), 1) if "# <" in line}
    calls = {number for number, line in enumerate(text.splitlines(), 1) if "traced(tf" in line or line == "outer()"}
    for finding in (tenure.explain(error), from_text(said + "".join(traceback.format_exception(error)))):
        assert finding is not None
        lines = {place.line for place in finding.places if place.file == str(path)}
        assert lines & named
        assert lines <= named | calls, finding
