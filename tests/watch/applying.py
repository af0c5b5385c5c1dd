"""Does what findings propose: applies the edits to copies of the program's files."""

import shutil
from pathlib import Path


def apply(findings, program, copy):
    """Copy the program's folder, apply every edit of these findings to the copy, and return the copied program."""
    folder = Path(program).resolve().parent
    shutil.copytree(folder, copy)
    edits = {}
    for finding in findings:
        for edit in (finding["fix"] or {}).get("edits", ()):
            assert Path(edit["file"]).resolve().is_relative_to(folder), "an edit of a file that is not the program's"
            edits.setdefault(Path(edit["file"]).resolve().relative_to(folder), set()).add(
                (tuple(edit["start"]), tuple(edit["end"]), edit["text"])
            )
    for file, changes in edits.items():
        target = copy / file
        target.write_text(_edited(target.read_text(), sorted(changes, reverse=True)))
    return copy / Path(program).name


def _edited(text, changes):
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    before = len(text)
    for start, end, new in changes:
        first, last = (starts[line - 1] + column - 1 for line, column in (start, end))
        assert first <= last <= before, "edits overlap"
        text = text[:first] + new + text[last:]
        before = first
    return text


def proposed(findings):
    """The number of edits."""
    return sum(len((finding["fix"] or {}).get("edits", ())) for finding in findings)
