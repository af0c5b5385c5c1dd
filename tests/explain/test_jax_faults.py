"""Programs that really fail in jax, each explained live and from the text of its traceback."""

import pytest
from programs import check, programs

pytest.importorskip("jax")


@pytest.mark.parametrize("program", programs("jax"), ids=str)
def test_explained(program, tmp_path):
    check(program, tmp_path / f"{program.name}.py")
