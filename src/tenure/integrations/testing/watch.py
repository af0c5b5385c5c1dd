"""The watch over the tests of one process: what each leaves behind, how much it needs at most, and what becomes of it."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tenure.errors import TenureError
from tenure.explain import told
from tenure.integrations.meter import Window, rise
from tenure.integrations.testing import verdicts
from tenure.integrations.testing.limits import Limits, of
from tenure.integrations.testing.verdicts import Totals
from tenure.integrations.watched import Amounts, Birthplace, Watched, grown


def register(config: pytest.Config) -> None:
    """Watch, in the process that runs tests: not where xdist only hands them out."""
    if getattr(config.option, "dist", "no") != "no" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(verdicts.Collected(), "tenure-summary")
    else:
        try:
            watch = TestWatch(config)
        except TenureError as error:
            raise pytest.UsageError(f"--tenure: {error}") from None
        config.pluginmanager.register(watch, "tenure-watch")


class TestWatch:
    """A plugin of pytest's."""

    __test__ = False

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._folder = Path(tempfile.mkdtemp(prefix="tenure-pytest-"))
        self._watched: Watched | None = None
        self._dull: set[Birthplace] = set()  # those that only fill caches
        self._before: Amounts | None = None
        self._wide: Amounts = {}  # what fixtures of wider scopes made since the test began
        self._parts: list[Window] = []  # of the test's time, without the set-up of such fixtures
        self._tests: list[tuple[str, list[Window]]] = []
        self._traces = 0
        self.totals = Totals()
        self.resume()

    # The recording

    def resume(self) -> None:
        """Begin to record, or begin again after a test that had a trace of its own."""
        self._traces += 1
        self._watched = Watched(self._folder / str(self._traces), self.totals.notes.append)
        self._before = self._watched.alive()
        self._parts = [self._watched.meter.open()]

    def pause(self) -> None:
        """Let another record: what this test leaves is not known."""
        if self._watched is not None:
            self._settle()
            self._watched.stop()
        self._watched = self._before = None
        self._parts = []

    def _settle(self) -> None:
        """Find out how much the tests so far needed at most."""
        if self._watched is not None and self._tests:
            self._watched.meter.read()
            for name, parts in self._tests:
                self.totals.reach(name, rise(parts)[1])
            self._tests.clear()

    def pytest_unconfigure(self) -> None:
        """Stop, and take away what was recorded."""
        import shutil

        if self._watched is not None:
            self._watched.stop()
            self._watched = None
        shutil.rmtree(self._folder, ignore_errors=True)

    # The tests

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Report invalid marks before anything runs; in a process of xdist, the test fails."""
        for item in () if hasattr(self._config, "workerinput") else items:
            of(item)

    def pytest_runtest_logstart(self) -> None:
        """Note what modules allocated at import, before their first test: it does not belong to the test."""
        if not self.totals.tests and self._watched is not None:
            self._before = self._watched.alive()
            self._watched.meter.drop(self._parts.pop())
            self._parts = [self._watched.meter.open()]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Do not count what a fixture of a wider scope creates for the first test that uses it."""
        watched = self._watched
        if fixturedef.scope == "function" or watched is None:
            return (yield)
        before = watched.alive()
        if self._parts:
            watched.meter.close(self._parts[-1])
        try:
            return (yield)
        finally:
            if watched is self._watched:
                for place, (count, nbytes) in grown(before, watched.alive()).items():
                    known = self._wide.get(place, (0, 0))
                    self._wide[place] = known[0] + count, known[1] + nbytes
                self._parts.append(watched.meter.open())

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a test as pytest does, and only then tell what became of it: it has leaked or not when all is torn down.

        Where another plugin runs tests in its own way, a leak is told as an error of the teardown.
        """
        if _is_run_by_another(item):
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        text = self._after(item, passed=all(report.passed for report in reports))
        for report in reports:
            if text and report.when == "call":
                verdicts.fail(report, text)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Explain the exception of a failed test; judge a test that another plugin runs."""
        report = yield
        if call.excinfo is not None and report.failed:
            finding = told.look(call.excinfo.value)
            if finding is not None:
                report.sections.append(("tenure", told.text(finding)))
        if report.when == "teardown" and _is_run_by_another(item):
            text = self._after(item, passed=bool(report.passed))
            if text:
                verdicts.fail(report, text)
        return report

    # What became of a test

    def _after(self, item: pytest.Item, *, passed: bool) -> verdicts.Verdict | None:
        """Return why the test fails, for what it left allocated or needed; None if it passes."""
        self.totals.tests += 1
        watched, wide = self._watched, self._wide
        parts, self._wide = self._parts, {}
        if watched is None or self._before is None:
            return None
        try:
            limits = of(item)
        except pytest.UsageError as error:
            return verdicts.Verdict(str(error), 0, ())
        watched.meter.close(parts[-1])
        after = watched.alive()
        verdict = None
        if passed:
            verdict, after = self._leaked(watched, wide, after, limits)
            if limits.peak is not None:
                verdict = self._too_high(watched, item.nodeid, parts, limits) or verdict
        self._tests.append((item.nodeid, parts))
        self._before = after
        self._parts = [watched.meter.open()]
        if verdict is not None:
            self.totals.failed += 1
        return verdict

    def _leaked(
        self, watched: Watched, wide: Amounts, after: Amounts, limits: Limits
    ) -> tuple[verdicts.Verdict | None, Amounts]:
        assert self._before is not None
        before = _sum(self._before, wide)
        if not self._is_worth_a_look(grown(before, after), limits):
            return None, after
        gc.collect()  # what waits for the collector is not kept
        after = watched.alive()
        more = grown(before, after)
        if not self._is_worth_a_look(more, limits):
            return None, after
        from tenure.integrations.testing.leftovers import Search

        left, spared = Search(self._config.rootpath, self._dull).look(watched.crowds(), more)
        self.totals.spared += spared
        verdict = verdicts.leaked(left, limits)
        if verdict is None:
            self.totals.kept += sum(one.nbytes for one in left)
        else:
            self.totals.leaked += verdict.nbytes
        return verdict, after

    def _is_worth_a_look(self, more: Amounts, limits: Limits) -> bool:
        if limits.leaked is not None:
            return sum(nbytes for _, nbytes in more.values()) > limits.leaked
        return any(place not in self._dull for place in more)

    def _too_high(self, watched: Watched, name: str, parts: list[Window], limits: Limits) -> verdicts.Verdict | None:
        watched.meter.read()
        device, height = rise(parts)
        if limits.peak is None or device is None or height <= limits.peak:
            return None
        return verdicts.too_high(watched.recorder.folder, parts, device, height, limits.peak)

    # The end

    def pytest_sessionfinish(self) -> None:
        """Tell the process that hands out tests, if there is one, what was seen."""
        self._settle()
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["tenure"] = self.totals.as_dict()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the totals."""
        verdicts.summarize(terminalreporter, self.totals)


def _is_run_by_another(item: pytest.Item) -> bool:
    found = item.ihook.pytest_runtest_protocol.get_hookimpls()
    plain = [one for one in found if not one.hookwrapper and not one.wrapper]
    return any(one.plugin_name not in ("runner", "tenure-watch") for one in plain)


def _sum(one: Amounts, other: Amounts) -> Amounts:
    made = dict(one)
    for place, (count, nbytes) in other.items():
        known = made.get(place, (0, 0))
        made[place] = known[0] + count, known[1] + nbytes
    return made
