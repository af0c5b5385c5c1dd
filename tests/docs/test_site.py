"""The site is built as `make docs` builds it; every fault and every verb has its page, and every link leads somewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

import tenure
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
    for number, heading in enumerate(("What it means", "Why it hurts", "Example", "Use instead", "How to be sure")):
        assert re.findall(r"<h2[^>]*>([^<]*)<", wrong)[number] == heading
    assert wrong.count('class="codehilite"') == 2


def test_each_verb_has_its_page(site):
    for verb in VERBS:
        page = (site / f"commands/{verb}.html").read_text()
        assert f"usage: tenure {verb}" in page and "--help" in page


def test_each_public_name_is_in_the_api_with_an_anchor(site):
    index = (site / "api.html").read_text()
    for name in tenure.__all__:
        page, anchor = re.search(rf'<a href="([^"#]+)#([^"]+)"><code>{name}</code></a>', index).groups()
        text = (site / page).read_text()
        assert f'id="{anchor}"' in text
        found = getattr(tenure, name)
        if not isinstance(found, type):
            assert f"tenure.{name}(" in re.sub(r"<[^>]+>", "", text)


def test_the_list_of_the_api_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "-c", "import _api; print(_api.index(), end='')"],
        cwd=ROOT / "docs", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == (ROOT / "docs/api.md").read_text(), "run: python docs/_api.py"


def test_every_variable_and_every_command_is_on_the_page_of_the_environment():
    text = (ROOT / "docs/environment.md").read_text()
    read = re.compile(r"(?:getenv|is_on|environ(?:\.get)?|environ\b.*|TRACE =|RUN =)[\s(\[]*\"(TENURE_\w+)\"")
    files = [
        path
        for folder in ("src", "native")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".h", ".cpp", ".c", ".pth")
    ]
    names = {name for path in files for name in read.findall(path.read_text())}
    assert {"TENURE_TRACE", "TENURE_RUN", "TENURE_NATIVE", "TENURE_CACHE_DIR", "TENURE_TORCH_CALLS"} <= names
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []
    assert [verb for verb in VERBS if f"`tenure {verb}" not in text] == []


def test_the_api_shows_signatures_arguments_and_attributes(site):
    text = re.sub(r"<[^>]+>", "", (site / "api/release.html").read_text())
    assert "tenure.scope(name: str | None = None, *, cap: int | str | None = None) -&gt; Scope" in text
    text = re.sub(r"<[^>]+>", "", (site / "api/inspect.html").read_text())
    assert all(word in text for word in ("TensorInfo", "born", "Site | None", "framework(name: str) -&gt; Usage"))


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


def test_every_file_that_the_architecture_names_is_there():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    folders = [ROOT / name for name in ("src", "native", "tests", "docs")]
    there = {f"/{path.relative_to(ROOT).as_posix()}" for one in folders for path in (one, *one.rglob("*"))}
    names = set(re.findall(r"[\w/]+\.(?:py|cpp|c|h)\b", text)) | set(re.findall(r"\b([\w/]+)/(?=[\s,;:)])", text))
    assert len(names) > 100
    assert [name for name in sorted(names) if not any(path.endswith(f"/{name}") for path in there)] == []


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
