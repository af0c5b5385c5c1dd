"""Programs that fail, with what tenure must say of them: `### name CODE|CODE`, or `none`, and marks on the lines that count."""

import contextlib
import io
import re
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import tenure
from tenure.explain import driver
from tenure.explain.text import parse

FOLDER = Path(__file__).parent / "programs"


@dataclass
class Program:
    name: str
    codes: tuple
    text: str

    def __str__(self):
        return self.name

    @property
    def marks(self):
        """The lines that end in `# <birth>`, `# <use>` and so on."""
        lines = enumerate(self.text.splitlines(), 1)
        return {number for number, line in lines if re.search(r"# <[a-z,]+>\s*$", line)}


def programs(name):
    found = []
    for part in re.split(r"^### ", (FOLDER / f"{name}.txt").read_text(), flags=re.MULTILINE)[1:]:
        head, _, text = part.partition("\n")
        title, codes = head.split()
        found.append(Program(title, () if codes == "none" else tuple(codes.split("|")), text))
    return found


def failed(text, path):
    """The exception of a program, as its own process would show it, and what it wrote to stderr before."""
    path.write_text(text)
    said = io.StringIO()
    with (
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always")
        warnings.showwarning = lambda *told, file=None, line=None: said.write(warnings.formatwarning(*told[:4], line))
        try:
            exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        except Exception as error:
            return error.with_traceback(error.__traceback__.tb_next), said.getvalue()
    raise AssertionError(f"{path.name} does not fail")


def from_text(text):
    found = [finding for raised in parse(text) if (finding := driver.find(raised)) is not None]
    return found[-1] if found else None


def check(program, path):
    """Live and from the text alone: the same faults, and a site on a line that counts."""
    error, said = failed(program.text, path)
    shown = "".join(traceback.format_exception(error))
    for finding in (tenure.explain(error), from_text(said + shown)):
        if not program.codes:
            assert finding is None, finding
            continue
        assert finding is not None, shown
        assert finding.code in program.codes, (finding, shown)
        lines = {place.line for place in finding.places if place.file == str(path)}
        assert lines & program.marks, (finding, program.marks)
    assert "".join(traceback.format_exception(error)) == shown
