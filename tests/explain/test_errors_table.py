"""docs/errors.md: its messages are in the installed frameworks, and its programs are tested under the faults it names."""

import importlib.util
import mmap
import re
from pathlib import Path

import pytest
from programs import programs

from tenure.faults import FAULTS

TABLE = Path(__file__).parents[2] / "docs" / "errors.md"
ROW = re.compile(r"^\| `(?P<message>.+)` \| (?P<file>[^|]+) \| (?P<faults>[^|]+) \| (?P<by>[^|]+) \|$", re.MULTILINE)
ROWS = list(ROW.finditer(TABLE.read_text()))
PROGRAMS = {program.name: program for name in ("torch", "jax", "tensorflow") for program in programs(name)}


def root(package):
    return Path(importlib.util.find_spec(package).submodule_search_locations[0]).parent


def test_the_table_is_read():
    assert len(ROWS) > 80
    assert len([line for line in TABLE.read_text().splitlines() if line.startswith("| `")]) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["message"][:40])
def test_row(row):
    file = row["file"].strip()
    if file != "Python itself":
        path = root(file.split("/")[0]) / file
        with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as source:
            assert source.find(row["message"].encode()) >= 0, file
    codes = {code.strip() for code in row["faults"].split(",")}
    assert codes <= {*FAULTS, "none"}
    by = row["by"].strip()
    if by.startswith(("not provoked: ", "the page of ", "not an escaped value: ")):
        return
    for name in by.split(", "):
        assert codes & set(PROGRAMS[name].codes), name
