"""A plugin of pytest's for other projects' suites: it writes each test's outcome, and can run each test in a scope.

FOREIGN_OUTCOMES names the file; FOREIGN_SCOPE=1 asks for scopes. Random numbers begin with the same seed in each test,
so that two runs can be compared.
"""

import json
import os
import random
import sys

import pytest

# Of several reports of one test (set-up, call, subtests, teardown) the first of these counts.
WORST = ("error", "failed", "xpassed", "xfailed", "skipped", "passed")


def pytest_configure(config):
    if os.environ.get("FOREIGN_OUTCOMES"):
        config.pluginmanager.register(Outcomes(os.environ["FOREIGN_OUTCOMES"]))
    if os.environ.get("FOREIGN_SCOPE") == "1":
        config.pluginmanager.register(Scopes())


def of(report):
    if report.when != "call" and report.failed:
        return "error"
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return report.outcome


class Outcomes:
    """A line for a test that begins, and one for each report: what was running when a process died is known."""

    def __init__(self, file):
        self._file = open(file, "w", buffering=1, encoding="utf-8")

    def _write(self, test, outcome, why=None):
        self._file.write(json.dumps([test, outcome, why]) + "\n")

    def pytest_collectreport(self, report):
        if not report.passed:
            self._write(f"collecting {report.nodeid}", "error" if report.failed else report.outcome, _text(report))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        random.seed(0)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(0)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(0)

    def pytest_runtest_logstart(self, nodeid):
        self._write(nodeid, "began")

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or not report.passed:
            self._write(report.nodeid, of(report), _text(report))

    def pytest_runtest_logfinish(self, nodeid):
        self._write(nodeid, "ended")


def _text(report):
    if report.passed or hasattr(report, "wasxfail"):
        return None
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:2000]
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash is not None else str(report.longrepr))[:2000]


class Scopes:
    """Each test's call in a scope of its own; fixtures are outside."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item):
        import tenure

        run = item.runtest

        def inside():
            with tenure.scope(item.name):
                run()

        item.runtest = inside


def read(file):
    """What became of each test: its outcome and why. A test that began and did not end was running at the end."""
    found = {}
    try:
        lines = open(file, encoding="utf-8")
    except FileNotFoundError:
        return found
    with lines:
        for line in lines:
            test, outcome, why = json.loads(line)
            known = found.get(test)
            if outcome == "began":
                found[test] = ("not ended", "the process was gone, or stopped, before this test was over")
            elif outcome == "ended":
                if known is not None and known[0] == "not ended":
                    found[test] = ("passed", None)
            elif known is None or known[0] == "not ended" or WORST.index(outcome) < WORST.index(known[0]):
                found[test] = (outcome, why)
    return found
