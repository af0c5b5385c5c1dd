"""The generated pages: rules, commands, the Python API, benchmarks, examples, and the files next to the README.

A hook of MkDocs. Links in docs/*.md work in the repository. Here a link that leaves docs/ becomes a link to the page of
that file. A link to nothing is a warning, which fails the build.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import _api
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tenure import cli
from tenure.faults import FAULTS, MODULES

ROOT = Path(__file__).parent.parent
# A page that is called README would be the folder's index.
BESIDE = {name: name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")} | {"README.md": "overview.md"}
GROUPS = {
    "TN1": "Symbolic values outside their trace",
    "TN2": "Used after release",
    "TN3": "Kept in memory too long",
    "TN4": "Shared names and memory",
    "TN5": "Advice",
}
WAYS = {
    "in_source": "check",
    "in_run": "run",
    "in_exception": "explain",
    "in_trace": "report",
}
# The page that describes a command in detail.
MORE = {
    "check": "check.md",
    "explain": "errors.md",
    "export": "export.md",
    "report": "tutorials/torch.md#a-whole-run",
    "rules": "faults/index.md",
    "run": "tutorials/torch.md#a-whole-run",
    "server": "check.md#in-editors-and-hooks",
    "sql": "trace-format.md#reading-it",
    "store": "sharing-files.md#maintaining-a-store",
    "top": "top.md",
    "view": "view.md",
}

_PARTS = re.compile(
    r"(?P<fence>^ *```.*?^ *```$)|(?P<heading>^#[^\n]*$)|(?P<words>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^()\s]+)\)"
    r"|(?P<code>`[^`\n]+`)|(?P<fault>\bTN\d{3}\b)",
    re.DOTALL | re.MULTILINE,
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Hang the pages that are made into the navigation."""
    groups = [
        {f"{group}: {words}": [{f"{c} {f.name}": _fault_page(c)} for c, f in FAULTS.items() if c.startswith(group)]}
        for group, words in GROUPS.items()
    ]
    verbs = [{f"tenure {verb}": f"commands/{verb}.md"} for verb in cli.VERBS]
    parts = [{title: f"api/{group}.md"} for group, (title, _) in _api.GROUPS.items()]
    under: dict[str, list[Any]] = {"faults/index.md": groups, "commands/index.md": verbs, "api.md": parts}
    for entry in config.nav or []:
        for name, page in entry.items():
            if isinstance(page, str) and page in under:
                entry[name] = [{"Overview": page}, *under[page]]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them."""
    for name, text in (*_api.pages(), *_faults(), *_commands(), *_benchmarks(), *_examples(), *_beside()):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links that leave docs/ to pages, and codes of faults to theirs."""
    here = page.file.src_uri
    markdown = _api.linked(markdown) if here == _api.INDEX.name else markdown
    folder = posixpath.dirname(here)
    # In the repository the written pages lie in docs/; the made ones lie where their files do.
    beside = folder if page.file.generated_by is not None else posixpath.join("docs", folder)

    def led(match: re.Match[str]) -> str:
        if match["target"]:
            return _led(match, beside, folder, files)
        code = match["fault"]
        if code in FAULTS and _fault_page(code) != here:
            return f"[{code}]({posixpath.relpath(_fault_page(code), folder or '.')})"
        return match[0]

    return _PARTS.sub(led, markdown)


def _led(match: re.Match[str], beside: str, folder: str, files: Files) -> str:
    path, hash_, anchor = match["target"].partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return match[0]
    name = posixpath.normpath(posixpath.join(beside, path))
    page = BESIDE.get(name, name.removeprefix("docs/"))
    for one in (page, f"{page}.md", f"{page}/index.md"):
        if files.get_file_from_path(one) is not None:
            return f"{match['words']}({posixpath.relpath(one, folder or '.')}{hash_}{anchor})"
    # A file or a folder without a page is named. What is not there stays, for MkDocs to complain of.
    return match["words"][1:-1] if (ROOT / name).exists() else match[0]


def _fault_page(code: str) -> str:
    return f"faults/{code.lower()}.md"


def _faults() -> Iterator[tuple[str, str]]:
    lines = ["# Rules\n\nThe rules for lifetime mistakes. `tenure explain TN301` prints the same pages.\n"]
    for group, words in GROUPS.items():
        lines.append(f"\n## {group}: {words}\n\n| code | problem | found by |\n|---|---|---|")
        for module in MODULES:
            fault = module.FAULT
            if fault.code.startswith(group):
                lines.append(f"| {fault.code} | {_escaped(fault.title)} | {_ways(module)} |")
    yield "faults/index.md", "\n".join(lines)
    for module in MODULES:
        fault = module.FAULT
        found = f"Found by: {_ways(module)}." if _ways(module) else "No command reports this rule yet."
        yield _fault_page(fault.code), f"# {fault.code} {fault.name}\n\n{_as_markdown(fault.page)}\n\n{found}\n"


def _ways(module: ModuleType) -> str:
    """The commands that can find it, with links."""
    return ", ".join(
        f"[tenure {verb}](../commands/{verb}.md)" for function, verb in WAYS.items() if hasattr(module, function)
    )


def _as_markdown(page: str) -> str:
    """A docstring as Markdown: what is indented is Python, the rest is plain text with headings and `code`."""
    parts = []
    for part in re.split(r"\n\n(?=\S)", page.strip()):
        text, _, code = part.partition("\n\n    ")
        if part.startswith("    "):
            text, code = "", part[4:]
        if text:
            parts.append(_escaped(text))
        if code:
            parts.append(f"```python\n{textwrap.dedent('    ' + code).strip()}\n```")
    return "\n\n".join(parts)


def _escaped(text: str) -> str:
    """Plain text, with its `code` left as it is."""
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_<\\|])", r"\\\1", part) for part in re.split(r"(`[^`]*`)", text)
    )


def _commands() -> Iterator[tuple[str, str]]:
    rows = ["# Commands\n\n`tenure COMMAND --help` prints the same text.\n\n| command | what it does |\n|---|---|"]
    for verb in cli.VERBS:
        told = _help(verb)
        summary = told.split("\n\n")[1].replace("\n", " ")
        rows.append(f"| [tenure {verb}]({verb}.md) | {_escaped(summary)} |")
        more = f"\nMore in [{Path(MORE[verb].partition('#')[0]).stem}](../{MORE[verb]})\n" if verb in MORE else ""
        yield f"commands/{verb}.md", f"# tenure {verb}\n\n```\n{told.strip()}\n```\n{more}"
    yield "commands/index.md", "\n".join(rows)


def _help(verb: str) -> str:
    os.environ["COLUMNS"] = "110"
    with contextlib.redirect_stdout(io.StringIO()) as told:
        cli.main([verb, "--help"])
    return told.getvalue()


def _benchmarks() -> Iterator[tuple[str, str]]:
    rows = [
        "# What it costs\n\nScripts in `benchmarks/` measured these tables. `make foreign`, `make faults` and `make sanitize` write their own.\n"
    ]
    for path in sorted((ROOT / "benchmarks").glob("*.md")):
        text = path.read_text()
        rows.append(f"- [{text.partition(chr(10))[0].lstrip('# ')}]({path.name}): {path.stem.replace('_', ' ')}")
        yield f"benchmarks/{path.name}", text
    yield "benchmarks/index.md", "\n".join(rows)


def _examples() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "examples").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        yield f"{name}.md", f"# {name}\n\n```python\n{path.read_text().strip()}\n```\n"


def _beside() -> Iterator[tuple[str, str]]:
    for name, page in BESIDE.items():
        yield page, (ROOT / name).read_text()
