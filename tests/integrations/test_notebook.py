"""The notebook of the examples, executed by a real kernel: what its cells show. And what a hostile text becomes."""

import re
from html.parser import HTMLParser
from pathlib import Path

import nbclient
import nbformat
import pytest

from tenure.findings import Finding, Fix, Place
from tenure.model import Holder, Link, Memory, Remains, Remnant, Site, TensorInfo, Usage
from tenure.views import notebook

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
# What else a notebook does: other magics inside, errors, wrong words, a second loading, the end.
MORE = {
    "error": "%%tenure\ntorch.ones(3) + torch.ones(4)",
    "value": "%%tenure again\nimport math\ny = torch.ones(5)\n%time z = y + 1\nmath.tau",
    "usage": "%%tenure -x\n1",
    "name": "%%tenure 3x\n1",
    "folder": "%%tenure -o kept\nx = torch.zeros(10)",
    "line": "%tenure torch.ones(100).sum()",
    # As where ipywidgets is not installed: DuckDB has no progress bar then, and raises if it is switched off.
    "sql": "import sys\nsys.modules['ipywidgets'] = None\nagain.sql('select count(*) as n from events').num_rows",
    "spoiled": "from tenure.views import notebook\nshown = notebook.SHOWN.pop(('tenure.traces', 'Trace'))",
    "both fail": "%%tenure\nraise ValueError('my own')",
    "report fails": "%%tenure\n6 * 7",
    "whole": "notebook.SHOWN['tenure.traces', 'Trace'] = shown",
    "unload": "%reload_ext tenure\n%unload_ext tenure\ntenure.memory()",
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The outputs of each cell, by its number or name."""
    book = nbformat.read(NOTEBOOK, 4)
    for name, source in MORE.items():
        cell = nbformat.v4.new_code_cell(source)
        cell["id"], cell.metadata["tags"] = name, ["raises-exception"]
        book.cells.append(cell)
    folder = tmp_path_factory.mktemp("notebook")
    nbclient.NotebookClient(
        book, timeout=200, kernel_name="python3", resources={"metadata": {"path": folder}}
    ).execute()
    found = {cell["id"]: cell.outputs for cell in book.cells if cell.cell_type == "code"}
    assert (folder / "kept" / "meta.json").exists()
    return found


def page(outputs):
    (html,) = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.partition("</style>")[2]))


def test_the_committed_notebook_has_no_outputs():
    assert all(not cell.outputs for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code")


def test_a_recorded_cell_shows_its_report(cells):
    shown = page(cells["cell-3"])
    assert "Summary: 1 leak (TN301). Peak memory is" in shown
    assert "40 steps" in shown
    assert "stored here Cell In[2]:12 history.append(loss)" in shown
    assert "loss = model(x).pow(2).mean()" in shown
    assert "Peak of" in shown


def test_findings_holders_remains_info_and_memory(cells):
    assert "TN301 history collects tensors that still carry their autograd graph" in page(cells["cell-5"])
    assert "← keeps it alive" in page(cells["cell-5"])
    assert "1 holder global history [3]" in page(cells["cell-7"])
    shown = page(cells["cell-9"])
    assert "0 bytes freed, 4.0 MiB retained" in shown
    assert "view corner" in shown
    shown = page(cells["cell-10"])
    assert "torch tensor float32[1024, 1024] on cpu" in shown
    assert "disposed by dispose" in shown
    assert "torch on cpu" in page(cells["cell-12"])


def test_errors_values_and_wrong_words(cells):
    kinds = [output.output_type for output in cells["error"]]
    assert kinds == ["display_data", "error"]  # the report, and the cell's own error
    assert cells["error"][1].ename == "RuntimeError"
    (value,) = [output for output in cells["value"] if output.output_type == "execute_result"]
    assert value["data"]["text/plain"].startswith("6.283")
    assert any("Wall time" in output.get("text", "") for output in cells["value"])
    for name, word in (("usage", "unrecognized arguments: -x"), ("name", "'3x' is not a valid name")):
        (told,) = cells[name]
        told = told.get("text") or told.get("evalue")
        assert word in told
        assert "write %%tenure [-o FOLDER] [NAME]" in told
    assert "Peak of" in page(cells["line"][:1])
    (last,) = cells["unload"]
    assert "text/html" not in last["data"]


def test_a_query_where_duckdb_has_no_progress_bar(cells):
    (value,) = cells["sql"]
    assert (value.get("evalue"), value.get("data", {}).get("text/plain")) == (None, "1")


def test_a_report_that_fails_takes_nothing_from_the_cell(cells):
    told, error = cells["both fail"]
    assert "tenure: the report failed: KeyError" in told["data"]["text/plain"]
    assert (error.ename, error.evalue) == ("ValueError", "my own")
    told, value = cells["report fails"]
    assert "tenure: the report failed: KeyError" in told["data"]["text/plain"]
    assert value["data"]["text/plain"] == "42"


ODD = "<script>alert('x')</script><img src=x onerror=alert(1)>\x1b[31m\n\r`</code>" + "y" * 1_000_000


class Read(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.handlers, self.text = set(), [], ""

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on") or name in ("src", "href")]

    def handle_data(self, data):
        self.text += data


SITE = Site(ODD, 3, ODD)
INFO = TensorInfo("torch", (3,), ODD, ODD, 12, "disposed", SITE, SITE, ODD, ODD)
HOLDER = Holder(ODD, (Link(ODD, "global", SITE), Link(ODD, "item")))
FINDING = Finding(
    "TN301",
    "loss",
    ODD,
    (Place("birth", ODD, 3, ODD, ODD),),
    reason=ODD,
    fix=Fix(ODD),
    evidence={"path": [ODD, ODD], "suspect": 1},
)
VALUES = [
    FINDING,
    [FINDING, FINDING],
    HOLDER,
    [HOLDER],
    INFO,
    Memory({(ODD, ODD): Usage(1, 1, 4)}, (ODD,)),
    Remains((Remnant("held", 12, (INFO,), ODD, lambda: [HOLDER]), Remnant("cannot", 4, (), ODD))),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_hostile_texts_are_text(value):
    kind = type(value)
    html = notebook.several(value) if kind is list else notebook.SHOWN[kind.__module__, kind.__name__](value, str)
    read = Read()
    read.feed(html)
    assert read.tags <= {"style", "div", "span", "b", "code", "table", "tr", "td", "th", "ul", "li", "br"}
    assert read.handlers == []
    assert "<script>alert('x')" in read.text
    assert "\x1b" not in html
    assert len(html) < 60_000


def test_lists_of_other_things_are_left_alone():
    assert notebook.several([1, 2]) is None
    assert notebook.several([]) is None
    assert notebook.several([FINDING, 1]) is None
