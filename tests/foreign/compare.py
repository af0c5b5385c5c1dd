"""Other projects' test suites, plain and under tenure: every test must end as it does without it.

    python tests/foreign/compare.py              all suites in all modes; writes benchmarks/foreign.md
    python tests/foreign/compare.py einops chex  these, and no page

Each suite runs plain, traced, with `--tenure`, and with each test in a scope. The files with tests that differ are run
again, three times plain and three times in that mode. A test that differs among its plain runs is flaky. Every other
difference fails, unless suites.py names it with its reason.
"""

import argparse
import collections
import datetime
import os
import platform
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from itertools import repeat
from pathlib import Path

from fetch import environment, unpacked
from outcomes import read
from suites import SUITES

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MODES = ("traced", "--tenure", "scope")
AGAIN = 3
LIMIT = 7200  # seconds for one suite in one mode
HUNG = 124  # the exit code after it
NOT_RUN = ("not run", None)


class Runner:
    """Runs suites in the environment made for them."""

    def __init__(self, suites, folder, *, resume):
        self._folder, self._resume = folder, resume
        self._python = environment(suites, folder)
        for suite in suites:
            unpacked(suite, folder)

    def run(self, suite, mode, tests=(), label=""):
        """What became of each test, and of the process; of all tests of the suite, or of those of some files."""
        source = unpacked(suite, self._folder)
        folder = self._folder / "runs" / suite.label / f"{mode.strip('-')}{label}"
        ended = folder / "exit-code"
        if self._resume and ended.exists():
            return read(folder / "outcomes.jsonl"), int(ended.read_text())
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        outcomes = folder / "outcomes.jsonl"
        env = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        # One thread to compute with: suites are many small tests, and sums come in the same order.
        env |= {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
        folders = (ROOT / "src", HERE, *(source / path for path in suite.path))
        env["PYTHONPATH"] = os.pathsep.join(map(str, folders))
        env |= {"PYTHONHASHSEED": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", **suite.env}
        env |= {"FOREIGN_OUTCOMES": str(outcomes), "FOREIGN_SCOPE": "1" if mode == "scope" else "0"}
        if mode == "traced":
            env["TENURE_TRACE"] = str(folder / "trace")
        own = {"plain": ("-p", "no:tenure"), "--tenure": ("--tenure",)}.get(mode, ())
        program = [str(self._python), "-m", "pytest", "-p", "outcomes", "-p", "no:cacheprovider", "-q", "--timeout=300"]
        start = time.monotonic()
        with (folder / "output.txt").open("w") as output:
            try:
                code = subprocess.run(
                    [*program, *own, *suite.args, *(tests or suite.tests)],
                    cwd=source, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=LIMIT,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                code = HUNG
        if mode == "traced" and not any((folder / "trace").rglob("*.arrows")):
            raise SystemExit(
                f"{suite.label}: nothing was recorded, so nothing can be compared; see {folder}/output.txt"
            )
        shutil.rmtree(folder / "trace", ignore_errors=True)
        ended.write_text(str(code))
        found = read(outcomes)
        seconds = time.monotonic() - start
        print(f"{suite.label}, {mode}{label}: {len(found):,} tests, exit {code}, {seconds:.0f} s", flush=True)
        return found, code


@dataclass
class Compared:
    """What became of a suite's tests in a mode, beside plain: test → (plain, here), each an outcome and why."""

    tests: int
    plain_exit: int
    exit: int
    different: dict = field(default_factory=dict)
    flaky: dict = field(default_factory=dict)
    named: dict = field(default_factory=dict)

    @property
    def same(self):
        return self.tests - len(self.different) - len(self.flaky) - len(self.named)

    @property
    def is_clean(self):
        """No difference is left; the process may end differently only where tests did."""
        return (
            self.tests > 0 and not self.different and (self.exit == self.plain_exit or bool(self.flaky or self.named))
        )


def differing(plain, other):
    """The tests that ended differently: what became of them plain, and in the other run."""
    both = {test: (plain.get(test, NOT_RUN), other.get(test, NOT_RUN)) for test in dict.fromkeys([*plain, *other])}
    return {test: (one, two) for test, (one, two) in both.items() if one[0] != two[0]}


def sort_out(compared, found, plain_runs, known):
    """Put each of these differences where it belongs: named by `known`, flaky among plain runs, or different."""
    for test, both in found.items():
        ends = {run[test][0] for run in plain_runs if test in run}
        if len(ends) > 1:
            compared.flaky[test] = both
        elif reason := next((why for name, why in known.items() if test.endswith(name)), None):
            compared.named[test] = (both[0], (both[1][0], reason))
        else:
            compared.different[test] = both


def compare(runner, suite, modes):
    """A suite in all modes: what is plain, and how each mode compares."""
    plain, code = runner.run(suite, "plain")
    plain_runs = [plain]
    results = {}
    for mode in modes:
        other, ended = runner.run(suite, mode)
        results[mode] = result = Compared(len(plain), code, ended)
        found = differing(plain, other)
        known = suite.known.get(mode, {})
        unnamed = [test for test in found if not any(test.endswith(name) for name in known)]
        files = sorted({test.partition("::")[0] for test in unnamed if "::" in test})
        for turn in range(AGAIN if files else 0):
            plain_runs.append(runner.run(suite, "plain", files, f"-again-{mode.strip('-')}-{turn + 1}")[0])
            again = runner.run(suite, mode, files, f"-again-{turn + 1}")[0]
            found |= differing({test: plain[test] for test in again if test in plain}, again)
        sort_out(result, found, plain_runs, known)
    return plain, results


def listing(suite, results):
    """The differences of a suite, a line each."""
    for mode, result in results.items():
        for kind in ("different", "flaky", "named"):
            for test, (before, after) in getattr(result, kind).items():
                why = (after[1] or before[1] or "").strip().splitlines()
                yield f"{suite.label}, {mode}, {kind}: {test}: {before[0]} → {after[0]}: {why[0] if why else ''}"
        if not result.is_clean and not result.different:
            yield f"{suite.label}, {mode}, different: exit code {result.plain_exit} → {result.exit}"


def page(rows):
    """The committed table."""
    versions = [f"{name} {metadata.version(name)}" for name in ("torch", "jax", "tensorflow-cpu", "numpy", "pytest")]
    lines = [
        "# Other projects' test suites under tenure",
        "",
        "The tests in the source packages of other projects, each run four times: plain, traced (`TENURE_TRACE`), with",
        "`pytest --tenure`, and with each test in a `tenure.scope()`. A test is the same if it ends as it does plain:",
        "passed, failed, skipped, in error, expected to fail. Random numbers have the same seed in each test. A test that",
        f"differs among plain runs (one, and {AGAIN} more of its file) is flaky. Made by `make foreign`.",
        "",
        f"{datetime.date.today()}, Python {platform.python_version()}, {', '.join(versions)}.",
        "",
        "| suite | tests | passed | failed or in error | skipped | mode | same | different | flaky | named |",
        "|---|---:|---:|---:|---:|---|---:|---:|---:|---:|",
    ]
    totals = collections.Counter()
    for suite, plain, results in rows:
        count = collections.Counter(outcome for outcome, why in plain.values())
        bad = count["failed"] + count["error"] + count["not ended"]
        totals["tests"] += len(plain)
        start = f"| {suite.name} {suite.version}{f', {suite.run}' if suite.run else ''} | {len(plain):,} | {count['passed']:,}"
        start += f" | {bad:,} | {len(plain) - count['passed'] - bad:,} "
        for mode, result in results.items():
            figures = (result.same, len(result.different), len(result.flaky), len(result.named))
            lines.append(f"{start}| {mode} | {' | '.join(f'{figure:,}' for figure in figures)} |")
            for name, figure in zip(("same", "different", "flaky", "named"), figures, strict=True):
                totals[mode, name] += figure
            start = "| | | | | "
    for mode in MODES:
        figures = " | ".join(f"**{totals[mode, name]:,}**" for name in ("same", "different", "flaky", "named"))
        lines.append(f"| **all** | **{totals['tests']:,}** | | | | **{mode}** | {figures} |")
    for kind, title in (
        ("different", "Different"),
        ("flaky", "Flaky"),
        ("named", "Named, with the reason"),
    ):
        listed = [line for suite, plain, results in rows for line in listing(suite, results) if f", {kind}: " in line]
        if listed:
            lines += ["", f"## {title}", "", *(f"- {line.replace(f', {kind}: ', ': ', 1)}" for line in listed)]
    missing = [suite.label for suite in SUITES if suite.label not in {row[0].label for row in rows}]
    if missing:
        lines += ["", f"Not run this time: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help="names of suites; without, all of them")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "foreign", help="where everything is put")
    parser.add_argument("--mode", action="append", choices=MODES, help="only this mode, beside plain")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="suites that run at the same time")
    parser.add_argument("--resume", action="store_true", help="keep the runs that an interrupted call has finished")
    parser.add_argument("--write", type=Path, help="the page to write; without, benchmarks/foreign.md if all is run")
    given = parser.parse_args()
    suites = [suite for suite in SUITES if not given.suites or {suite.name, suite.label} & set(given.suites)]
    runner = Runner(SUITES, given.folder, resume=given.resume)
    rows, clean, modes = [], True, given.mode or MODES
    file = given.write
    if file is None and suites == list(SUITES) and given.mode is None:
        file = ROOT / "benchmarks" / "foreign.md"
    with ThreadPoolExecutor(given.jobs) as pool:
        for suite, (plain, results) in zip(suites, pool.map(compare, repeat(runner), suites, repeat(modes))):
            rows.append((suite, plain, results))
            clean = clean and all(result.is_clean for result in results.values())
            for line in listing(suite, results):
                print(line, flush=True)
            if file is not None:
                file.write_text(page(rows))  # after each: all of them take an hour
    if file is None:
        print(page(rows))
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
