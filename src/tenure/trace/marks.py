"""The marks by which a recorder notes, in its own stream, how it records and what it does not see."""

from __future__ import annotations

import re

_TROUBLE = "trouble: "
_PARTLY = "partly: "
_RECORDING = re.compile(r"recording (\w+) \S* ?\((native|in Python)\)")


def recording(framework: str, version: str, *, native: bool) -> str:
    """Return the mark that says how a framework is recorded."""
    return f"recording {framework} {version} ({'native' if native else 'in Python'})"


def trouble(text: str) -> str:
    """Return the mark for something that went wrong in a recorder."""
    return f"{_TROUBLE}{text}"


def partly(results: tuple[str, ...], why: str) -> str:
    """Return the mark for results that this stream gives only in part."""
    return f"{_PARTLY}{', '.join(results)}: {why}"


def read_trouble(mark: str) -> str | None:
    """Return what went wrong, if this is such a mark."""
    return mark.removeprefix(_TROUBLE).strip() if mark.startswith(_TROUBLE) else None


def read_partly(mark: str) -> tuple[list[str], str] | None:
    """Return the results that are given only in part, and why, if this is such a mark."""
    results, found, why = mark.removeprefix(_PARTLY).partition(": ")
    return (results.split(", "), why) if mark.startswith(_PARTLY) and found else None


def read_recording(mark: str) -> tuple[str, bool] | None:
    """Return the framework, and whether it is recorded natively, if this is such a mark."""
    found = _RECORDING.fullmatch(mark)
    return (found[1], found[2] == "native") if found else None
