"""Source packages of the index, checked and unpacked; and an environment in which their tests run."""

import hashlib
import html
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import urllib.parse
import urllib.request
import venv
from importlib import metadata
from pathlib import Path

THEIRS = ("torch", "jax", "jaxlib", "tensorflow", "numpy")  # what needs must not change is held by constraints


def unpacked(suite, folder: Path) -> Path:
    """The folder with the source of a suite's package."""
    source = folder / "source" / f"{suite.name}-{suite.version}"
    if not source.exists():
        archive = _archive(suite, folder / "archives")
        part = source.with_suffix(".part")
        with tarfile.open(archive) as tar:
            tar.extractall(part, filter="data")
        (inside,) = part.iterdir()
        if not any(map(_is_for_pytest, inside.iterdir())):
            (inside / "pytest.ini").write_text("[pytest]\n")  # or pytest would take the settings of a folder above
        for made in suite.folders:
            (inside / made).mkdir(parents=True)
        inside.rename(source)
        part.rmdir()
    return source


def _is_for_pytest(file: Path) -> bool:
    section = {"pyproject.toml": "[tool.pytest", "setup.cfg": "[tool:pytest]", "tox.ini": "[pytest]"}.get(file.name)
    return file.name == "pytest.ini" or (section is not None and section in file.read_text())


def _archive(suite, folder: Path) -> Path:
    for file in folder.glob("*.tar.gz"):
        if _sum(file) == suite.sha256:
            return file
    from pip._internal.models.index import PyPI  # the index that pip itself would ask

    index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url)
    page = f"{index.rstrip('/')}/{re.sub('[-_.]+', '-', suite.name).lower()}/"
    with urllib.request.urlopen(page, timeout=60) as answer:
        links = re.findall(r'href="([^"]+)"', answer.read().decode())
    wanted = f"-{suite.version}.tar.gz"
    link = next(link for link in links if urllib.parse.urlsplit(html.unescape(link)).path.endswith(wanted))
    address = urllib.parse.urljoin(page, html.unescape(link))
    with urllib.request.urlopen(address, timeout=300) as answer:
        content = answer.read()
    got = hashlib.sha256(content).hexdigest()
    if got != suite.sha256:
        raise SystemExit(f"{suite.name} {suite.version}: the archive's SHA-256 is {got}, not {suite.sha256}")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{suite.name}{wanted}"
    file.write_bytes(content)
    return file


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def environment(suites, folder: Path) -> Path:
    """A Python that has all that this one has, and what the suites need; nothing that is there changes its version."""
    home = folder / "env"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, symlinks=True)
        site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
        (site / "ours.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    needs = sorted({need for suite in suites for need in suite.needs})
    done = home / "needs.txt"
    if needs and (not done.exists() or done.read_text().splitlines() != needs):
        held = home / "constraints.txt"
        have = {one.metadata["Name"].lower(): one.version for one in metadata.distributions()}
        have.pop("tenure", None)
        held.write_text("".join(f"{name}=={version}\n" for name, version in sorted(have.items())))
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--prefer-binary"]
        subprocess.run([*pip, "--constraint", str(held), *needs], check=True)
        done.write_text("\n".join(needs))
    return python
