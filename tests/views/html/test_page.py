"""The page of a real leaking run, opened from its file in a real browser, and used as people use it."""

import json
import re

import pytest

from tenure.analysis.scan import NEVER

CHART = "echarts.getInstanceByDom(document.getElementById('chart'))"


def size(text):
    """Bytes from words: `1.50 MiB`."""
    number, unit = text.replace("+", "").split()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)


def near(told, expected):
    assert size(told) == pytest.approx(expected, rel=0.006, abs=1)


def click_at(page, micro):
    """Click the picture at a moment."""
    x, y = page.evaluate(f"{CHART}.convertToPixel('grid', [{micro}, 0])")
    box = page.locator("#chart").bounding_box()
    page.mouse.click(box["x"] + x, box["y"] + y - 60)


def address(page):
    """As the page knows it: `page.url` is told later."""
    return page.evaluate("location.href")


def moments(page):
    return page.evaluate("JSON.parse(document.getElementById('data').textContent).trace.moments")


def rows(page, table):
    return [row.locator("td").all_inner_texts() for row in page.locator(f"{table} tbody tr").all()]


def test_findings_come_first_and_lead_into_the_picture(opened, html, trace, made):
    page = opened(html)
    found = trace.findings()
    assert page.title() == "tenure: train" or page.title().endswith("/train")
    assert page.locator("#findings a").count() == len(found)
    assert "TN302" in page.locator("#findings a").first.inner_text()
    page.locator("#findings a").last.click()
    assert address(page).endswith(f"#finding={len(found) - 1}")
    page.locator("#findings a", has_text="TN302").click()
    told = page.locator("#detail").inner_text()
    assert "`self.history` keeps tensors that still carry their autograd graph" in told
    assert "store the values without their graph" in told
    # Its line is lit in the picture, the others are not.
    series = page.evaluate(f"{CHART}.getOption().series.map((one) => [one.name, one.areaStyle?.opacity])")
    assert [name for name, opacity in series if opacity == 1] == [f"training.py:{made}"]
    assert page.locator("#findings a[aria-current=true]").count() == 1


def test_the_suspect_link_of_the_path_is_marked(opened, html):
    page = opened(html)
    page.locator("#findings a", has_text="TN302").click()
    path = page.locator("#detail .holder").first
    links = path.locator("li").all_inner_texts()
    assert links[0].startswith("local self") and ".history" in links[1] and re.search(r"\[\d+\]", links[2])
    assert path.locator("li.suspect .code").inner_text() == ".history"
    assert "keeps it alive" in path.locator("li.suspect").inner_text()


def test_a_moment_tells_what_was_alive(opened, html, trace):
    page = opened(html)
    peak = trace.peak()
    click_at(page, peak.seconds * 1e6)
    page.wait_for_selector("#alive")
    chosen = int(re.search(r"at=(\d+)", address(page))[1])
    assert chosen in moments(page)
    page.goto(page.url.partition("#")[0] + f"#at={round(peak.seconds * 1e6)}")
    page.until("document.querySelector('#detail h2')?.textContent.startsWith('Alive')")
    near(page.locator(".facts b").first.inner_text(), peak.bytes)
    told = rows(page, "#alive")
    by_line = {row[4].split()[0]: row for row in told}
    for site in peak.sites[:8]:
        row = by_line["place" if site.file is None else f"training.py:{site.line}"]  # or `place unknown`
        near(row[0], site.bytes)
        assert int(row[2].replace(",", "")) == site.count
    assert "predicted = self.model(x)" in told[0][4]


def test_every_stack_sums_to_the_same_peak(opened, html, trace):
    page = opened(html)
    peak = trace.peak().bytes
    for name in page.locator("#stack button").all_inner_texts():
        page.locator(f"#stack button[data-name={name}]").click()
        series = page.evaluate(f"{CHART}.getOption().series.map((one) => one.data.map((point) => point[1]))")
        assert max(map(sum, zip(*series, strict=True))) == peak, name
    assert {"kind", "site", "use", "scope"} <= set(page.locator("#stack button").all_inner_texts())
    page.locator("#stack button[data-name=kind]").click()
    names = page.evaluate(f"{CHART}.getOption().series.map((one) => one.name)")
    assert {"parameter", "gradient", "optimizer state", "activation", "temporary"} <= set(names)


def test_a_line_shows_its_lives_its_stack_and_its_holders(opened, html, trace, made):
    page = opened(html)
    page.locator("#sites a", has_text=f"training.py:{made}").first.click()
    drawn = page.evaluate(
        "echarts.getInstanceByDom(document.getElementById('lives')).getOption().series.map((one) => one.data)"
    )
    scan = trace.scanned
    first = scan.facts[0]
    names = trace.sql(
        "select epoch_us(born) as born, epoch_us(last_use) as used, epoch_us(ended) as ended, line from buffers"
    )
    known = {
        (r["born"] - first, r["used"] and r["used"] - first, r["ended"] - first)
        for r in names.to_pylist()
        if r["line"] == made
    }
    before, used, late = drawn
    assert len(before) > 40
    for born, use, rest in zip(before, used, late, strict=True):
        # What is too short to be seen is drawn a little longer.
        assert any(born == b and (u is None or use >= u - b) and rest == e - (u or b) for b, u, e in known if e < NEVER)
    assert max(late) > 1e5  # the leaked ones, long past their last use
    assert page.locator("#detail .stack details").count() == 3
    assert page.locator("#detail .stack pre .at").first.inner_text().split(maxsplit=1)[1] == "predicted = self.model(x)"
    page.locator("#detail .stack summary").nth(1).click()
    assert "trainer.step(x, x)" in page.locator("#detail .stack details").nth(1).inner_text()
    assert page.locator("#detail .holder li.suspect .code").first.inner_text() == ".history"
    assert "training.py" in page.locator("#detail .where", has_text="The largest was last used").inner_text()
    # A click on the path shows where the link is.
    root = page.locator("#detail .holder").first.locator("li").first
    assert not root.locator("pre").is_visible()
    root.locator("summary").click()
    assert root.locator("pre").is_visible()
    line = root.locator("pre .at").inner_text()
    assert "trainer = Trainer()" in line or "def step(self" in line


def test_search_narrows_and_opens(opened, html, made):
    page = opened(html)
    page.keyboard.press("/")
    page.keyboard.type("history")
    assert page.locator("#findings a").count() == 1
    lines = page.locator("#sites a").all_inner_texts()
    assert len(lines) == 1 and f"training.py:{made}" in lines[0]
    page.keyboard.press("Enter")
    assert address(page).endswith("#finding=0")
    page.locator("#search").fill("no such thing")
    assert page.locator("#sites a").count() == 0 and "no match" in page.locator("#findings").inner_text()
    page.locator("#search").focus()
    page.keyboard.press("Escape")
    assert page.locator("#sites a").count() > 5


def changed(found):
    return {change.name: change.bytes for change in (*found.new, *found.gone, *found.grown, *found.shrunk)}


def expected_of(shown, expected):
    """The change of the line that the page shows so."""
    place = shown.split(" in ")[0].split("\n")[0]
    if place == "place unknown":
        return expected["unknown"]
    return next(change for name, change in expected.items() if f"{place} " in name)


def test_two_moments_differ_as_the_analysis_says(opened, html, trace):
    page = opened(html)
    every = moments(page)
    early, late = every[len(every) // 2], every[-5]
    page.goto(page.url.partition("#")[0] + f"#at={early}")
    page.locator("#pin").click()
    click_at(page, late)
    page.wait_for_selector("#differences")
    at, start = (int(re.search(rf"{name}=(\d+)", address(page))[1]) for name in ("at", "from"))
    assert start == early and at > early
    expected = changed(trace.diff(at=start / 1e6, to=at / 1e6))
    told = rows(page, "#differences")
    assert len(told) == len(expected)
    for row in told:
        near(row[0], expected_of(row[5], expected))
    page.keyboard.press("Escape")
    page.wait_for_selector("#alive")


def test_two_traces_differ_as_the_analysis_says(opened, shorter, trace, tmp_path):
    import tenure

    other = shorter
    trace.to_html(tmp_path / "both.html", tenure.load(other))
    page = opened(tmp_path / "both.html")
    assert page.locator("#detail h2").inner_text() == "Two traces"
    expected = changed(tenure.load(other).diff(trace))
    told = rows(page, "#differences")
    assert len(told) == len(expected)
    for row in told:
        near(row[0], expected_of(row[5], expected))
    page.locator("#when").select_option("end")
    assert "short at" in page.locator("#detail .facts").inner_text()
    assert any("(other)" in name for name in page.evaluate(f"{CHART}.getOption().series.map((one) => one.name)"))


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_and_dark(opened, html):
    light, dark = opened(html), opened(html, scheme="dark")
    assert background(light) != background(dark)
    light.keyboard.press("d")
    assert background(light) == background(dark)
    dark.locator("#theme").click()
    assert background(dark) == "rgb(243, 244, 247)"
    text = dark.evaluate(f"{CHART}.getOption().legend[0].textStyle.color")
    assert text == "#171a1f"


def test_everything_can_be_done_by_keys(opened, html):
    page = opened(html)
    count = page.locator("#findings a").count()
    page.keyboard.press("j")
    assert address(page).endswith(f"#finding={1 % count}")
    page.keyboard.press("k")
    assert address(page).endswith("#finding=0")
    page.keyboard.press("p")
    page.wait_for_selector("#alive")
    at = int(re.search(r"at=(\d+)", address(page))[1])
    every = moments(page)
    page.keyboard.press("ArrowLeft")
    assert address(page).endswith(f"#at={every[every.index(at) - 1]}")
    page.keyboard.press("+")
    page.until(f"{CHART}.getOption().dataZoom[0].end - {CHART}.getOption().dataZoom[0].start < 60")
    page.keyboard.press("0")
    page.until(f"{CHART}.getOption().dataZoom[0].end - {CHART}.getOption().dataZoom[0].start > 99")
    before = page.locator("#stack [aria-pressed=true]").inner_text()
    page.keyboard.press("s")
    assert page.locator("#stack [aria-pressed=true]").inner_text() != before
    page.keyboard.press("x")
    assert page.evaluate(f"{CHART}.getOption().xAxis[0].max") == len(every) - 1
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    assert "next finding" in page.locator("#keys").inner_text()
    page.locator("#keys button").click()
    assert not page.locator("#keys").is_visible()
    page.go_back()
    assert address(page).endswith(f"#at={at}")


def test_two_keys_at_once_are_two(opened, html):
    page = opened(html)
    page.keyboard.press("p")
    every = moments(page)
    at = every.index(int(re.search(r"at=(\d+)", address(page))[1]))
    left = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true}))"
    page.evaluate(f"{left}; {left}")
    assert address(page).endswith(f"#at={every[at - 2]}")
    assert page.locator("#alive").count() == 1


def test_source_that_was_changed_since_is_noted(opened, tmp_path):
    import subprocess
    import sys

    import tenure

    (tmp_path / "made.py").write_text("import torch\nx = torch.ones(9)\n")
    words = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", str(tmp_path / "trace"), str(tmp_path / "made.py")]
    subprocess.run(words, check=True)
    tenure.load(tmp_path / "trace").to_html(tmp_path / "same.html")
    assert "was changed since" not in opened(tmp_path / "same.html").locator("#notes").inner_text()
    (tmp_path / "made.py").write_text("\nimport torch\nx = torch.ones(9)\n")
    tenure.load(tmp_path / "trace").to_html(tmp_path / "changed.html")
    assert "made.py was changed since" in opened(tmp_path / "changed.html").locator("#notes").inner_text()


def test_addresses_that_lead_nowhere_show_something(opened, html):
    page = opened(html.as_uri() + "#finding=999&site=-4&at=x&from=NaN")
    assert page.locator("#alive").count() == 1


def test_a_run_without_buffers_says_so(opened, tmp_path):
    import subprocess
    import sys

    import tenure

    code = "import sys; from pathlib import Path; from tenure.trace.recorder import Recorder\nr = Recorder(Path(sys.argv[1])); r.start(); r._rows.trouble('nothing'); r.stop()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "empty")], check=True)
    tenure.load(tmp_path / "empty").to_html(tmp_path / "empty.html")
    page = opened(tmp_path / "empty.html")
    assert "Nothing was alive" in page.locator("#picture-title").inner_text()
    assert "No problem was found in the part of this run that was checked" in page.locator("#findings").inner_text()
    assert "only partly checked: while recording: nothing" in page.locator("#notes").inner_text()


def test_the_page_needs_nothing_but_itself(html):
    text = html.read_text("utf-8")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text.split("</style>")[1].split('<script id="data"')[0])
    assert "default-src 'none'" in text and "connect-src 'none'" in text
    assert html.stat().st_size < 2_500_000
    told = json.loads(re.search(r'application/json">(.*?)</script>', text, re.DOTALL)[1])
    assert told.keys() == {"trace"}


def test_ranks_and_devices_can_be_told_apart(opened, tmp_path):
    import sys
    from pathlib import Path

    import tenure

    sys.path[:0] = [str(Path(__file__).parents[2] / "trace"), str(Path(__file__).parents[3] / "benchmarks")]
    from made_traces import make
    from replicate import split

    make(tmp_path / "one", count=600)
    split(tmp_path / "one", tmp_path / "ranks", 3)
    trace = tenure.load(tmp_path / "ranks")
    trace.to_html(tmp_path / "ranks.html")
    page = opened(tmp_path / "ranks.html")
    names = "(one) => one.name"
    page.locator("#stack button[data-name=rank]").click()
    assert set(page.evaluate(f"{CHART}.getOption().series.map({names})")) == {"rank 0", "rank 1", "rank 2"}
    page.locator("#stack button[data-name=device]").click()
    assert set(page.evaluate(f"{CHART}.getOption().series.map({names})")) == set(trace.scanned.words("device"))
    for device in trace.scanned.words("device"):
        page.locator("#device").select_option(label=device)
        near(page.locator(".facts b").first.inner_text(), trace.peak(device).bytes)
