"""The README's commands print what it shows."""

import re

import docs_pages
import pytest

PATH = docs_pages.ROOT / "README.md"
TEXT = PATH.read_text()


@pytest.fixture(scope="module")
def page():
    return docs_pages.read(PATH)


def test_it_has_the_commands_that_set_tenure_up():
    assert all(f"`make {target}`" in TEXT for target in ("demo", "test"))


def test_it_leads_to_a_tutorial_for_each_framework():
    for name in docs_pages.FRAMEWORKS:
        path = f"docs/tutorials/{name}.md"
        assert f"({path})" in TEXT
        tutorial = docs_pages.read(docs_pages.ROOT / path)
        assert tutorial.framework == name and len(tutorial.programs) > 3


def test_all_that_it_shows_can_be_run(page):
    assert page.loose == [], "Python without a file name, or output without a command"
    assert len(page.sessions) > 4
    assert all(f"$ python {name}" in TEXT for name in page.programs)


def amounts(text):
    """The text without what differs a little from run to run."""
    return re.sub(r"[\d,.]+ KiB (more in each|per) step", r"N KiB \1 step", text)


def test_its_commands_print_what_it_says(page, tmp_path):
    (printed,) = docs_pages.printed("torch", [page], tmp_path)
    for (command, shown), now in zip(page.sessions, printed, strict=True):
        assert docs_pages.matches(amounts(shown), amounts(now)), f"$ {command}\n{now}\n--- and README.md says\n{shown}"
