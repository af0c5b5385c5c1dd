"""Makes the pictures of `docs/view.md` in a real browser: `python docs/_pictures.py [FOLDER]`.

A training that leaks is recorded, as `train.py` in that folder, whose name is seen in the pictures; and once more, mended.
"""

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
LEAKS, MENDED = "self.history.append(predicted)", "self.history.append(loss.item())"
SIZES = {1280: 800, 1920: 1080}


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


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)  # the traces are named as they are loaded
    source = (DOCS.parent / "tests/views/html/training.py").read_text()
    assert LEAKS in source
    fixed = recorded("fixed", source.replace(LEAKS, MENDED))
    leaking = recorded("leaking", source)  # the last, for its source is shown
    leaking.to_html(folder / "one.html")
    leaking.to_html(folder / "two.html", fixed)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        for act, width, scheme in (*PICTURES, (None, 1280, "dark")):
            context = browser.new_context(viewport={"width": width, "height": SIZES[width]}, color_scheme=scheme)
            page = context.new_page()
            page.goto((folder / ("one.html" if act else "two.html")).as_uri())
            until(page, "document.documentElement.dataset.ready")
            if act:
                act(page)
            page.wait_for_timeout(1500)  # the picture moves into its place
            name = act.__name__ if act else "compare"
            shot = Image.open(io.BytesIO(page.screenshot()))
            # Of 256 colours: a third of the bytes, and no difference to be seen.
            shot.convert("RGB").quantize(dither=Image.Dither.NONE).save(
                DOCS / "images" / f"view-{name}-{width}-{scheme}.png", optimize=True
            )
            context.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "/home/me/project"))
