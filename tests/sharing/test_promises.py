"""Every promise, on the stores in memory and in files, with every framework."""

import pytest
from promises import PROMISES


@pytest.mark.parametrize("name", PROMISES)
def test_promise(world, framework, name):
    PROMISES[name](world, framework)
