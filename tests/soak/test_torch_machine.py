"""Random programs in PyTorch: with tenure as without, to the bit and to the byte."""

from importlib.util import find_spec

import pytest
from machine import soak

if find_spec("torch") is None:  # not imported: the programs run in a child
    pytest.skip("needs torch", allow_module_level=True)

# What appears twice comes twice as often.
STEPS = """
    make make make unary unary binary binary view view view inplace inplace inplace drop gc
    backward backward grad get_grad zero_grad retain_grad custom hook base export export
    model train train forward dispose_model adopt_model
    enter enter enter exit exit exit raise misnest end keep scope_keep adopt cap
    dispose dispose dispose dispose_again poke poke own look
    call thread tasks race gen_start gen_next gen_close
""".split()


def test_random_programs():
    soak("torch_world", STEPS, examples=150)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_random_programs():
    soak("torch_world", STEPS, examples=5000, long=True)
