"""A finding as text: its lines in the order in which they are read, and what a fix changes."""

import pytest

from tenure.faults import tn208_freed_graph
from tenure.findings import Place
from tenure.views.formats import full, text

CREATED, STORED, FREED, USED = (
    Place(role, "/a/train.py", line, "", f"line_{line}()")
    for role, line in (("birth", 5), ("holder", 2), ("end", 8), ("use", 9))
)


@pytest.mark.parametrize(
    ("places", "head", "order"),
    [
        ((USED, FREED, CREATED), 9, [5, 8, 9]),  # reported at the use: what leads to it comes before
        ((STORED, CREATED), 2, [5, 2]),  # what is created comes first, wherever it is
        ((CREATED, STORED), 5, [5, 2]),  # in the order of time already
        ((FREED, USED), 8, [8, 9]),
    ],
)
def test_lines_are_in_the_order_in_which_they_are_read(places, head, order):
    lines = full.render([tn208_freed_graph.FAULT.finding("it is freed", places)]).splitlines()
    assert lines[1].strip() == f"--> /a/train.py:{head}"
    assert [int(line.partition("|")[0]) for line in lines if line.endswith("()")] == order


def test_labels_of_one_line_begin_with_the_creation():
    here = [Place(role, "/a/train.py", 3, "", "x = f()") for role in ("use", "birth")]
    assert "created here and used here" in full.render([tn208_freed_graph.FAULT.finding("it is freed", here)])


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        (["  y = f(x)"], ["  y = f(x)", "  del x"], ["  y = f(x)", "+ del x"]),
        (["total += loss"], ["total += loss.item()"], ["- total += loss", "+ total += loss.item()"]),
        (["a", "b"], ["a", "c", "d"], ["  a", "- b", "+ c", "+ d"]),
    ],
)
def test_a_line_that_a_fix_keeps_is_shown_once(old, new, shown):
    assert list(text.changed(old, new)) == shown
