"""The result of a run in one sentence, for the report, the notebook and the last lines of `tenure run`."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.analysis.summary import Summary
from tenure.findings import Finding
from tenure.model import size
from tenure.trace.autopsies import Autopsy

# What the absence of findings means, by how much of the run was checked.
NO_LEAK = {"all": "no leak found", "part": "no leak found, but not everything was checked", "none": "leaks not checked"}
NO_TENSOR = "no tensor was allocated during the recording"
_LEAK = "TN3"


def is_fault(finding: Finding) -> bool:
    """Return whether a finding reports an error, and is not advice."""
    return finding.severity != "advice"


def is_leak(finding: Finding) -> bool:
    """Return whether a finding reports a leak."""
    return is_fault(finding) and finding.code.startswith(_LEAK)


def other(limits: Sequence[str], findings: Sequence[Finding]) -> list[str]:
    """Return why leaks were not checked; if some were found, as `other leaks not checked`."""
    found = any(map(is_leak, findings))
    return [f"other {limit}" if found and limit.startswith("leaks ") else limit for limit in limits]


def best_advice(findings: Sequence[Finding]) -> Finding | None:
    """Return the advice that lowers peak memory the most, if there is any."""
    lower = [finding for finding in findings if finding.severity == "advice" and "saved" in finding.evidence]
    return max(lower, key=lambda finding: int(finding.evidence["saved"]), default=None)


def results(findings: Sequence[Finding], leaks: str, ends: Sequence[Autopsy]) -> list[str]:
    """Return the results as short phrases, the worst first; `leaks` is the phrase for a run without leaks."""
    faults = [finding for finding in findings if is_fault(finding)]
    leaked = [finding for finding in faults if is_leak(finding)]
    others = [finding for finding in faults if not is_leak(finding)]
    found = ["out of memory"] if ends else []
    found.append(_counted(leaked, "leak") if leaked else leaks)
    return [*found, _counted(others, "other finding" if leaked else "finding")] if others else found


def sentence(summary: Summary, findings: Sequence[Finding], ends: Sequence[Autopsy] = ()) -> str:
    """Return the summary of a run: its leaks, its peak memory, and how much lower that can be."""
    leaks = NO_TENSOR if summary.peak is None else NO_LEAK[summary.leaks_judged]
    told = f"Summary: {'; '.join(results(findings, leaks, ends))}."
    if summary.peak is None:
        return told
    best = best_advice(findings)
    lower = f" and can drop by {size(int(best.evidence.get('saved', 0)))}" if best else ""
    return f"{told} Peak memory is {size(summary.peak.bytes)} on {summary.peak.device}{lower}."


def _counted(findings: Sequence[Finding], noun: str) -> str:
    codes = ", ".join(sorted({finding.code for finding in findings}))
    return f"{len(findings):,} {noun if len(findings) == 1 else noun + 's'} ({codes})"
