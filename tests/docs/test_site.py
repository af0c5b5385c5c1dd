"""The site is built as `make docs` builds it; every fault and every verb has its page, and every link leads somewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tenure.cli import VERBS
from tenure.faults import FAULTS

ROOT = Path(__file__).parents[2]
WRITTEN = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def build(root, site):
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=root, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_each_fault_has_its_page(site):
    index = (site / "faults/index.html").read_text()
    for code, fault in FAULTS.items():
        page = (site / f"faults/{code.lower()}.html").read_text()
        assert f"{code} {fault.name}" in page
        assert f'href="{code.lower()}.html"' in index
        words = re.sub(r"\W+", " ", fault.title.replace("`", ""))
        assert words in re.sub(r"\W+", " ", re.sub(r"<[^>]+>", "", page)), "its first sentence"
    wrong = (site / "faults/tn301.html").read_text()
    assert "Wrong:" in wrong and "Right:" in wrong and 'class="codehilite"' in wrong


def test_each_verb_has_its_page(site):
    for verb in VERBS:
        page = (site / f"commands/{verb}.html").read_text()
        assert f"usage: tenure {verb}" in page and "--help" in page


def test_what_messages_mean_leads_to_the_faults(site):
    assert '<a href="faults/tn101.html">TN101</a>' in (site / "errors.html").read_text()


def test_pages_need_no_network(site):
    for page in site.rglob("*.html"):
        assert not re.search(r'(?:src|<link[^>]*href)="(?:https?:)?//', page.read_text()), page.name


def test_what_is_broken_fails(tmp_path):
    """One of each: a link, an anchor, a page of the navigation, a file outside of docs/."""
    for name in ("benchmarks", "examples", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    settings = (ROOT / "mkdocs.yml").read_text() + "  - Lost: lost.md\n"
    (tmp_path / "mkdocs.yml").write_text(settings)
    with (tmp_path / "docs/index.md").open("a") as page:
        page.write("\n[a](nowhere.md) [b](check.md#nowhere) [c](../benchmarks/nowhere.md)\n")
    done = build(tmp_path, tmp_path / "site")
    told = done.stdout + done.stderr
    assert done.returncode == 1
    assert all(word in told for word in ("'nowhere.md'", "'#nowhere'", "lost.md", "benchmarks/nowhere.md")), told


def anchors(path):
    """The names of a page's headings, as GitHub makes them."""
    found = re.findall(
        r"^#+ (.*)$", CODE.sub(lambda m: "" if m[0].startswith("```") else m[0], path.read_text()), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_resolve_in_the_repository(path):
    for target in LINK.findall(CODE.sub(lambda m: "" if m[0].startswith("```") else "code", path.read_text())):
        file, _, anchor = unquote(target).partition("#")
        if re.match(r"[a-z]+:", file):
            continue
        other = (path.parent / file).resolve() if file else path
        assert other.exists(), target
        assert other.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(other), target
