"""Programs that really fail in torch, each explained live and from the text of its traceback."""

import pytest
from programs import check, programs

pytest.importorskip("torch")


@pytest.mark.parametrize("program", programs("torch"), ids=str)
def test_explained(program, tmp_path):
    check(program, tmp_path / f"{program.name}.py")
