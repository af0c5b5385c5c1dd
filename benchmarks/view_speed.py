"""How long the page takes: to be made, and to be opened from its file in a browser.

    view_speed.py [BUFFERS…]      (default: 100000 1000000)

The traces are a real leaking run, its events again and again; the browser is a headless Chromium without a GPU. Between
two openings of a page the same browser opens one with the same library and no data, which shows the machine's part.
Writes benchmarks/view_speed.md.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from replicate import replicate

from tenure.views.html import page as pages

HERE = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
TURNS = 5
LIMITS = {100_000: 2.0, 1_000_000: 5.0}
CHART = "echarts.getInstanceByDom(document.getElementById('chart'))"
# From the key to what it brings, as drawn.
ACTIONS = {
    "another point in time": "ArrowLeft",
    "another stack": "s",
    "a finding": "j",
    "zoom": "+",
}
PRESS = """async (key) => {
  const begun = performance.now();
  document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begun;
}"""


def made(trace: Path, out: Path) -> tuple[float, float, float]:
    """Seconds by the clock and of the processor, and the most MiB of memory, of `tenure view TRACE -o PAGE`."""
    begun = time.perf_counter()
    words = [sys.executable, "-m", "tenure", "view", str(trace), "-o", str(out)]
    child = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def opened(browser: Browser, path: Path, *, actions: bool = False) -> tuple[float, float, dict[str, float]]:
    """Seconds from the navigation to a page that is drawn and answers, the processor's, and what actions take."""
    page = browser.new_page(viewport={"width": 1920, "height": 1080})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    begun = time.perf_counter()
    page.goto(path.as_uri())
    ready = page.evaluate("document.documentElement.dataset.ready")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    clock = time.perf_counter() - begun
    assert ready is not None or not actions
    told = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    took = {}
    for name, key in ACTIONS.items() if actions else ():
        page.evaluate(PRESS, key)
        took[name] = statistics.median(page.evaluate(PRESS, key) for _ in range(2))
    page.close()
    return clock, told["TaskDuration"], took


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [100_000, 1_000_000]
    rows = []
    load = os.getloadavg()[0]
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory(prefix="tenure-view-") as name, sync_playwright() as driver:
        place = Path(name)
        program = HERE.parent / "tests/views/html/training.py"
        words = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", str(place / "base"), str(program), "100"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        bare = place / "bare.html"
        bare.write_text(
            f"<!doctype html><p>bare</p><script>{(pages.HERE / 'vendor' / pages.LIBRARY).read_text()}</script>"
        )
        for size in sizes:
            trace = place / str(size)
            each = _events_a_buffer(place / "base")
            replicate(place / "base", trace, round(size * each))
            shutil.copy(next((place / "base").glob("suspects-*")), trace / "suspects-1.jsonl")  # so that it leaks
            page = place / f"{size}.html"
            cost = made(trace, page)
            turns = [(opened(browser, page, actions=True), opened(browser, bare)) for _ in range(TURNS)]
            rows.append((_buffers(trace), cost, page.stat().st_size, turns, LIMITS.get(size)))
            print(rows[-1], flush=True)
        version = browser.version
        browser.close()
    write(rows, load, version)


def _buffers(trace: Path) -> int:
    import tenure

    return tenure.load(trace).scanned.facts[2]


def _events_a_buffer(trace: Path) -> float:
    import tenure

    found = tenure.load(trace)
    return sum(one.events for one in found.processes) / found.scanned.facts[2]


def write(rows: list, load: float, version: str) -> None:
    lines = [
        "# What the page costs",
        "",
        "`tenure view TRACE -o PAGE` of a real training run that leaks, with its events repeated. Then a headless Chromium",
        "without a GPU, 1920 x 1080, opens the page from its file, until it is drawn and responds. Between two openings, the",
        "same browser opens a page with the same library and no data (bare). Made by `python benchmarks/view_speed.py`.",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, Chromium {version}, {platform.machine()}, two cores. Other programs kept",
        f"{load:.1f} processors busy at the start. If that is not near zero, the page had to share them.",
        "",
        "| buffers | made: seconds | processor | memory, MiB | page, MB | opened: median s | best | worst | processor of its main thread, s | bare page, s | limit |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for buffers, (clock, processor, memory), size, turns, limit in rows:
        took = [one[0] for one, _ in turns]
        busy, bare = statistics.median(one[1] for one, _ in turns), statistics.median(two[0] for _, two in turns)
        lines.append(
            f"| {buffers:,} | {clock:.1f} | {processor:.1f} | {memory:.0f} | {size / 1e6:.2f} | {statistics.median(took):.2f} "
            f"| {min(took):.2f} | {max(took):.2f} | {busy:.2f} | {bare:.2f} | {f'{limit:.0f} s' if limit else ''} |"
        )
    lines += [
        "",
        "Time from a key press to the next frame, median ms:",
        "",
        "| buffers | " + " | ".join(ACTIONS) + " |",
        "|---" * (len(ACTIONS) + 1) + "|",
    ]
    for buffers, _, _, turns, _ in rows:
        medians = [statistics.median(one[2][name] for one, _ in turns) for name in ACTIONS]
        lines.append(f"| {buffers:,} | " + " | ".join(f"{1 * value:.0f}" for value in medians) + " |")
    (HERE / "view_speed.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
