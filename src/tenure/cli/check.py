"""Find lifetime errors in source code without running it.

tenure checks files, folders and notebooks. It reads its settings from [tool.tenure] in pyproject.toml. A comment
silences a line.

  tenure check src
  tenure check --diff train.py
  losses.append(loss)  # tenure: ignore[TN301]

Exit code 0: no findings; 1: findings, or files that cannot be parsed; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.errors import TenureError

if TYPE_CHECKING:
    from tenure.findings import Finding
    from tenure.lint.runner import Report
    from tenure.lint.settings import Settings

FORMS = ("full", "concise", "json", "sarif", "github")


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="check these files and folders; - reads source from standard input (default: .)",
    )
    parser.add_argument("--format", choices=FORMS, default="full", help="print findings in this format (default: full)")
    parser.add_argument(
        "--select", metavar="CODES", help="check only these rules: codes, prefixes or names, separated by commas"
    )
    parser.add_argument("--ignore", metavar="CODES", help="check all rules except these")
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN", help="exclude paths that match PATTERN"
    )
    parser.add_argument("--fix", action="store_true", help="apply safe fixes")
    parser.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help="apply fixes that may change behaviour, too; use it with --fix or --diff",
    )
    parser.add_argument("--diff", action="store_true", help="show what --fix would change, without changing it")
    parser.add_argument("--statistics", action="store_true", help="count findings by rule")
    parser.add_argument("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    parser.add_argument(
        "--stdin-filename", metavar="FILE", default="<stdin>", help="use this file name for standard input"
    )
    parser.add_argument("--baseline", metavar="FILE", help="report only findings that are not in FILE")
    parser.add_argument("--write-baseline", metavar="FILE", help="write the current findings to FILE, and report none")
    parser.add_argument("--no-cache", action="store_true", help="check every file again, without the cache")
    parser.add_argument("--isolated", action="store_true", help="ignore pyproject.toml")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing if there are no findings")
    parser.add_argument("-j", "--jobs", type=_count, metavar="N", help="use N processes (default: one per core)")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("use 1 or more")
    return number


def run(options: argparse.Namespace) -> int:
    """Check, print the findings, and return the exit code."""
    from tenure import outputs
    from tenure.lint import baseline, runner, settings

    paths = options.paths or ["."]
    told = {} if options.isolated else settings.load("." if paths == ["-"] else paths[0])
    chosen = settings.made(
        told, select=options.select, ignore=options.ignore, exclude=options.exclude, baseline=options.baseline
    )  # fmt: skip
    if options.baseline and not Path(options.baseline).exists():
        raise TenureError(f"{options.baseline}: no such file; create it with --write-baseline")
    if paths == ["-"]:
        return _standard_input(options, chosen)
    if "-" in paths:
        raise TenureError("- cannot be combined with paths")
    if options.write_baseline:
        outputs.check(Path(options.write_baseline), baseline.is_baseline)
    report = runner.check(paths, chosen, jobs=options.jobs, cache=not options.no_cache)
    if options.write_baseline:
        baseline.write(options.write_baseline, report.findings)
        sys.stderr.write(f"tenure: {len(report.findings)} findings written to {options.write_baseline}\n")
        return 0
    if options.fix or options.diff:
        report = _fix(options, chosen, report, paths)
    for file, problem in report.problems:
        sys.stderr.write(f"tenure: {file}: {problem}\n")
    for file, line, codes in report.unused:
        what = f" ({', '.join(codes)})" if codes else ""
        sys.stderr.write(f"tenure: {file}:{line}: this comment silences nothing{what}\n")
    if options.statistics:
        counts = Counter((f.code, f.name) for f in report.findings)
        sys.stdout.writelines(f"{count:6}  {code}  {name}\n" for (code, name), count in counts.most_common())
    elif not options.diff:
        _tell(report.findings, options.format)
    if options.format == "full" and not (options.quiet or report.findings or report.problems):
        sys.stderr.write(f"tenure: {_nothing(report.files, paths, new=bool(chosen.baseline))}\n")
    return 0 if options.exit_zero else int(bool(report.findings or report.problems))


def _nothing(files: int, paths: Sequence[str], *, new: bool) -> str:
    """Return the result of a check without findings; `new`: those in the baseline do not count."""
    if not files:
        return f"no Python files {'here' if paths == ['.'] else 'in ' + ', '.join(paths)}"
    return f"no {'new ' if new else ''}findings in {files:,} {'file' if files == 1 else 'files'}"


def _standard_input(options: argparse.Namespace, chosen: Settings) -> int:
    from tenure.lint import fixed_files, fixes, stored_text
    from tenure.lint.one_file import check_bytes

    name = options.stdin_filename
    raw = sys.stdin.buffer.read()
    checked = check_bytes(raw, name)
    findings = [f for f in checked.findings if chosen.wants(f.code, name)]
    changing = options.fix or options.diff
    if checked.problem:
        sys.stderr.write(f"tenure: {name}: {checked.problem}\n")
        if options.fix and not options.diff:  # an editor puts what comes out in the place of what went in
            _write(raw)
        return 1
    if not changing:
        _tell(findings, options.format)
        return 0 if options.exit_zero else int(bool(findings))
    text = changed = ""
    if any(fixes.fixable(finding, unsafe=options.unsafe_fixes) for finding in findings):
        stored = stored_text.Stored(raw)
        text = stored.text
        changed, _ = fixed_files.fixed(text, name, chosen, unsafe=options.unsafe_fixes)
    if options.diff:
        sys.stdout.write(fixes.difference(text, changed, name))
    else:
        _write(stored.encoded(changed) if text != changed else raw)
    return 0


def _tell(findings: Sequence[Finding], form: str) -> None:
    from tenure.views.formats import FORMATS, full
    from tenure.views.formats.text import is_coloured

    if form == "full":
        sys.stdout.write(full.render(findings, colour=is_coloured(sys.stdout)))
    else:
        sys.stdout.write(FORMATS[form](findings))


def _write(raw: bytes) -> None:
    """Source as it is stored, in whatever encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()


def _fix(options: argparse.Namespace, chosen: Settings, report: Report, paths: list[str]) -> Report:
    from tenure.lint import fixed_files, runner

    done = fixed_files.fix_files(report.findings, chosen, unsafe=options.unsafe_fixes, show=options.diff)
    for text in done.differences:
        sys.stdout.write(text)
    for problem in done.problems:
        sys.stderr.write(f"tenure: {problem}\n")
    if options.diff:
        return report
    if done.fixed:
        files = "1 file" if len(done.files) == 1 else f"{len(done.files)} files"
        sys.stderr.write(f"tenure: {done.fixed} fixed in {files}\n")
    return runner.check(paths, chosen, jobs=options.jobs, cache=not options.no_cache)
