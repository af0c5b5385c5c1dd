"""What `print` shows of the results of holders, info and remains."""

import tenure
from tenure.model import Holder, Holders, Link, Remains, Remnant, Site, TensorInfo


def test_holders_print_one_path_per_line():
    paths = [
        Holder("local", (Link("history", "local", Site("a.py", 3, "f")), Link("[0]", "item"))),
        Holder("native", ()),
    ]
    shown = Holders(paths)
    assert shown == paths
    assert str(shown) == "local history[0] (a.py:3)\nnative "
    assert str(Holders()) == "no reference found"


def test_what_holders_and_info_return_is_readable(torch):
    kept = [torch.ones(256)]
    assert type(tenure.holders(kept[0])) is Holders
    assert "local kept[0] (test_shown.py:" in str(tenure.holders(kept[0]))
    assert str(tenure.info(kept[0])) == "torch tensor float32[256] on cpu, 1.0 KiB, live"


def test_info_shows_where_a_tensor_was_created_and_released():
    info = TensorInfo(
        "torch",
        (3, None),
        "int8",
        "cpu",
        3,
        "disposed",
        Site("a.py", 1, "f"),
        Site("b.py", 2, "g"),
        "scope exit",
        "step",
    )
    assert str(info) == (
        "torch tensor int8[3, ?] on cpu, 3 bytes, disposed by exit of scope 'step' at b.py:2, created at a.py:1"
    )


def test_equal_lines_of_remains_are_grouped():
    info = TensorInfo("torch", (4,), "int8", "cpu", 4)
    held = Remnant("held", 4, (info,), find=lambda: [Holder("local", (Link("x", "local"),))])
    remains = Remains((Remnant("freed", 4, (info,)), held, *[Remnant("freed", 4, (info,))] * 2))
    assert str(remains).splitlines() == [
        "12 bytes freed, 4 bytes retained",
        "  3 x 4 bytes freed: torch tensor int8[4] on cpu",
        "  4 bytes retained: torch tensor int8[4] on cpu",
        "    retained by local x",
    ]
    assert len(remains) == 4
