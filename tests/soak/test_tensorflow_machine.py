"""Random programs in TensorFlow: with tenure as without, to the bit and to the byte."""

from importlib.util import find_spec

import pytest
from machine import soak

if find_spec("tensorflow") is None:  # not imported: the programs run in a child
    pytest.skip("needs tensorflow", allow_module_level=True)

STEPS = """
    make make make unary unary binary binary variable variable variable assign tape tape export drop drop gc own own own
    enter enter enter exit exit exit raise misnest end keep scope_keep adopt
    dispose dispose dispose dispose_again poke poke look call thread tasks gen_start gen_next gen_close
""".split()


def test_random_programs():
    soak("tensorflow_world", STEPS, examples=60)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_random_programs():
    soak("tensorflow_world", STEPS, examples=1000, long=True)
