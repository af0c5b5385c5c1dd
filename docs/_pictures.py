"""The screenshots of docs/view.md and docs/top.md, made with a real browser: `python docs/_pictures.py [FOLDER]`.

A leaking training is recorded as `train.py` in that folder, whose name appears in the screenshots; then a fixed version.
"""

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import tenure

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests/views/html"))
from conftest import CHROMIUM, FLAGS, until  # noqa: E402

STEPS = "60"
LEAKS, FIXED = "self.history.append(predicted)", "self.history.append(loss.item())"
SIZES = {1280: 800, 1920: 1080}
# `tenure top` shows this run when it has run for so many seconds.
SLOW = """\
    import time

    for at in range(100_000):
        time.sleep(0.2)
"""
WATCHED = 75


def finding(page: Page) -> None:
    """The first is shown as the page opens."""


def use(page: Page) -> None:
    page.locator("#stack button[data-name=use]").click()


def moment(page: Page) -> None:
    page.keyboard.press("p")


def site(page: Page) -> None:
    page.locator("#sites a").first.click()
    page.locator("#detail").scroll_into_view_if_needed()


PICTURES = (
    (finding, 1280, "light"),
    (finding, 1920, "dark"),
    (use, 1920, "light"),
    (moment, 1280, "dark"),
    (site, 1280, "light"),
    (site, 1920, "dark"),
)


def recorded(name: str, source: str) -> tenure.Trace:
    Path("train.py").write_text(source)
    words = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", name, "train.py", STEPS]
    subprocess.run(words, check=True)
    return tenure.load(name)


async def watched() -> str:
    """Return the screen of `tenure top` as SVG, while train.py runs."""
    from tenure.views.live.app import Top
    from tenure.views.live.session import Session

    command = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", "run", "train.py"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        await asyncio.sleep(WATCHED)
        app = Top(Session(Path("run"), lambda place: ([], []), None))
        async with app.run_test(size=(112, 30)) as pilot:
            await pilot.pause(8)
            return app.export_screenshot(title="tenure top")
    finally:
        process.kill()
        process.wait()


def save(shot: bytes, file: Path) -> None:
    """Write a screenshot in 256 colours: a third of the bytes, and no visible difference."""
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(dither=Image.Dither.NONE).save(file, optimize=True)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)  # the traces are named as they are loaded
    source = (DOCS.parent / "tests/views/html/training.py").read_text()
    assert LEAKS in source
    fixed = recorded("fixed", source.replace(LEAKS, FIXED))
    leaking = recorded("leaking", source)  # the last, for its source is shown
    leaking.to_html(folder / "one.html")
    leaking.to_html(folder / "two.html", fixed)
    Path("train.py").write_text(source.replace("    for at in range(steps):\n", SLOW, 1))
    drawn = asyncio.run(watched())
    Path("train.py").write_text(source)  # which the pages show
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_content(drawn)
        save(page.locator("svg").screenshot(), DOCS / "top.png")
        for act, width, scheme in (*PICTURES, (None, 1280, "dark")):
            context = browser.new_context(viewport={"width": width, "height": SIZES[width]}, color_scheme=scheme)
            page = context.new_page()
            page.goto((folder / ("one.html" if act else "two.html")).as_uri())
            until(page, "document.documentElement.dataset.ready")
            if act:
                act(page)
            page.wait_for_timeout(1500)  # the picture moves into its place
            name = act.__name__ if act else "compare"
            save(page.screenshot(), DOCS / "images" / f"view-{name}-{width}-{scheme}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "/home/me/project"))
