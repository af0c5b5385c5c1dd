"""A real browser, and a real run that leaks, recorded once for all who look at it."""

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tenure

HERE = Path(__file__).parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder for all workers, each of its things made by one of them."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if os.environ.get("PYTEST_XDIST_WORKER") else place

    def made(name, make):
        target = place / "view" / name
        target.parent.mkdir(exist_ok=True)
        with (target.parent / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                make(target)
        return target

    return made


@pytest.fixture(scope="session")
def made():
    """The line whose tensors leak."""
    lines = (HERE / "training.py").read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if "predicted = " in line)


def record(folder, steps):
    words = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", str(folder), str(HERE / "training.py"), str(steps)]
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.fixture(scope="session")
def folder(shared):
    """The trace of a training run that leaks."""
    return shared("train", lambda target: record(target, 40))


@pytest.fixture(scope="session")
def shorter(shared):
    """Another run of the same, to compare with."""
    return shared("short", lambda target: record(target, 12))


@pytest.fixture(scope="session")
def trace(folder):
    return tenure.load(folder)


@pytest.fixture(scope="session")
def html(shared, trace):
    return shared("train.html", trace.to_html)


@pytest.fixture(scope="module")  # while it is open a loop of asyncio runs in this thread, and no other can
def browser():
    if CHROMIUM is None:
        reason = "there is no Chromium here; `make setup` installs it where it may"
        if os.environ.get("TENURE_TEST_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        yield found
        found.close()


def until(page, condition):
    """Wait for something to be true. Playwright's own way is eval within the page, which the page does not allow.

    A click is over before the page hears of its new address, so what a condition looks at may not be there yet: `?.`.
    """
    for _ in range(1200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"it never came: {condition}")


@pytest.fixture
def opened(browser):
    """Open a page; at the end it must have said nothing to the console, and asked nobody but its own server."""
    contexts, complaints = [], []

    def open_(address, scheme="light", width=1280, height=800):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.until = functools.partial(until, page)
        page.set_default_timeout(60_000)
        url = address if isinstance(address, str) else address.as_uri()
        origin = url.partition("?")[0] if url.startswith("http") else "file:"
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: None if asked.url.startswith(origin) else complaints.append(asked.url))
        page.goto(url)
        until(page, "document.documentElement.dataset.ready")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []
