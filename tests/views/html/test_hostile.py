"""Traces come from anywhere: whatever names they have is shown as text, and nothing of it runs."""

import subprocess
import sys
from pathlib import Path

import pytest

import tenure
from tenure.findings import Edit, Finding, Fix, Place
from tenure.views.html import found, texts
from tenure.views.html.page import embedded

EVIL = (
    "</script><script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    "\x1b[2J\x1b]0;owned\x07",
    "two\nlines\r\nand \u202e reversed",
    "<!-- <script> -->&lt;b&gt; __DATA__ ${window.owned = 1} `",
    "x" * 1_000_000,
)
PROGRAM = """
import sys, time
from pathlib import Path
from tenure.trace.recorder import Recorder

recorder = Recorder(Path(sys.argv[1]))
recorder.start()
sink = recorder._rows
clock = time.monotonic_ns()
names = eval(Path(sys.argv[2]).read_text())
for at, name in enumerate(names):
    for count in range(3):
        sink.born("torch", 4096 * (at + 1), "cpu" if at % 2 else name[:300], name[:2000], (2, 2), name[:50],
                  f"/tmp/{name}.py:{at + 1} in {name}\\n/tmp/{name}:7 in g", name[:40], clock + at * 1000 + count)
recorder.advance()
recorder.stop()
"""


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    place = tmp_path_factory.mktemp("evil") / "</script><b>"
    place.parent.mkdir(exist_ok=True)
    names = place.parent / "names"
    names.write_text(repr(EVIL))
    folder = place.parent / "<script>owned"
    subprocess.run([sys.executable, "-c", PROGRAM, str(folder), str(names)], check=True)
    bad = Finding(
        EVIL[0], EVIL[1], " ".join(EVIL), tuple(Place("birth", name, 3, name, name) for name in EVIL), "error",
        fix=Fix(EVIL[0], edits=(Edit("/etc/passwd", (1, 1), (1, 2), "x"), Edit("/etc/x.py", (1, 1), (10**9, 2), "x"))),
        evidence={"path": list(EVIL), "suspect": 1, EVIL[0]: {"deep": EVIL}},
    )  # fmt: skip
    from tenure.trace import told

    told.tell(folder, bad) if hasattr(told, "tell") else told.write(folder, "findings", bad.as_dict())
    return folder


def test_hostile_names_are_text(opened, evil, tmp_path):
    trace = tenure.load(evil)
    trace.to_html(tmp_path / "evil.html")
    assert (tmp_path / "evil.html").stat().st_size < 3_000_000
    page = opened(tmp_path / "evil.html")
    assert page.locator("#findings a").count() >= 1
    text = ""
    for what in ("finding", "site"):
        for at in range(page.locator(f"#{what}s a").count()):
            page.evaluate(f"location.hash = '#{what}={at}'")
            page.wait_for_timeout(50)
            text += page.evaluate("document.body.innerText")
    page.keyboard.press("p")
    for device in page.locator("#device option").all_inner_texts():
        page.locator("#device").select_option(label=device)
    box = page.locator("#chart").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 200)  # the tip over the picture has names too
    page.wait_for_timeout(200)
    assert page.evaluate("window.owned") is None
    assert page.evaluate("document.querySelectorAll('img, iframe, b script, script').length") == 3  # data and our two
    text += page.evaluate("document.body.innerText")
    assert "<script>window.owned = 1</script>" in text
    assert "onerror=" in text
    assert "\x1b" not in text and "\u202e" not in text
    assert "1,000,0" in text  # so many characters, of which the beginning is shown
    assert "root:" not in text  # no other file is read


def test_data_stays_data():
    text = embedded({"a": "</script><!--<script>", "b": "\ud800\u2028"})
    assert "<" not in text and ">" not in text and text.isascii()


def test_what_has_no_shape_is_a_box():
    assert (
        texts.shown("a\x1b[31mb\u202ec\ud800")
        == "a\N{REPLACEMENT CHARACTER}[31mb\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"
    )
    assert len(texts.shown("x" * 1_000_000)) < 400


def test_only_python_is_quoted(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("password\n" * 9)
    assert texts.excerpt(str(secret), 3) == []
    assert texts.excerpt("/no/such.py", 3) == []
    edit = Edit(str(secret), (1, 1), (1, 2), "x")
    told = found.findings([Finding("TN999", "x", "m", (), fix=Fix("f", edits=(edit,)))], [])
    assert told[0]["change"] == []


def test_findings_of_the_wrong_kind_are_shown_as_far_as_they_go():
    bad = Finding(
        3,
        None,
        {"a": 1},
        (Place("x" * 99, Path("/a"), "7", None, None),),
        "grave",
        evidence={"path": "abc", "suspect": "1"},
    )
    (told,) = found.findings([bad], [])
    assert (told["severity"], told["line"], told["evidence"]) == ("warning", None, {"path": None, "suspect": None})
