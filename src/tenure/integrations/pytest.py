"""pytest: `--tenure` watches each test, fails those that leak tensor memory, and keeps the limits that marks name.

    @pytest.mark.tenure(max_leaked="1 MiB", max_peak="64 MiB")
    def test_training_step(): ...

    def test_by_its_trace(tenure_trace):
        train()
        assert tenure_trace.load().peak().bytes < 1 << 26

pytest loads this file in every run. Without `--tenure` it adds an option, a mark and a fixture, and imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tenure.integrations.testing.trace import TestTrace

_MARK = (
    "tenure(max_leaked=None, max_peak=None): the tensor memory that the test may leak, and the most that may be alive "
    "at once in it; bytes, or text such as '10 MiB'. It applies with --tenure."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("tenure", "tensor memory").addoption(
        "--tenure",
        action="store_true",
        help="watch the tensor memory of each test; fail those that leak, and those that exceed the limits of their mark",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add the mark, and with `--tenure` the checks."""
    config.addinivalue_line("markers", _MARK)
    if config.getoption("--tenure"):
        from tenure.integrations.testing import watch

        watch.register(config)


@pytest.fixture
def tenure_trace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestTrace]:
    """Record this test. `load()` stops the recording and returns the `tenure.Trace`; `path` is its folder."""
    from tenure.integrations.testing.trace import TestTrace

    watch = request.config.pluginmanager.get_plugin("tenure-watch")
    trace = TestTrace(tmp_path / "tenure-trace", watch)
    yield trace
    trace.stop()
