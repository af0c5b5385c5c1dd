"""The programs of the tutorials and the recipes run, and print what the pages say."""

import docs_pages
import pytest

PAGES = docs_pages.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_all_that_a_page_shows_can_be_run(page):
    assert page.loose == [], "Python without a file name, or output without a command"
    assert page.sessions
    used = " ".join(command for command, _ in page.sessions) + "".join(page.programs.values())
    assert all(name in used.split() or f"from {name[:-3]} import" in used for name in page.programs)


@pytest.mark.parametrize("name", docs_pages.FRAMEWORKS)
def test_the_commands_print_what_the_page_says(name, tmp_path):
    pages = [page for page in PAGES if page.framework == name]
    assert any(page.path.stem == name for page in pages), "each framework has its tutorial"
    for page, told in zip(pages, docs_pages.printed(name, pages, tmp_path), strict=True):
        for (command, said), now in zip(page.sessions, told, strict=True):
            assert docs_pages.matches(said, now), f"{page.path.name}: $ {command}\n{now}\n--- and the page says\n{said}"


def test_a_page_that_says_something_else_is_found_out():
    assert docs_pages.matches("a\n...\nd", "a\nb\nc\nd")
    assert docs_pages.matches("run at 1.61 s", "run at 12 s")
    assert not docs_pages.matches("a\n...\nd", "a\nb\nc")
    assert not docs_pages.matches("4.0 MiB held", "5.0 MiB held")
