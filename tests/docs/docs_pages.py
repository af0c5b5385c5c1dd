"""The programs and the commands in pages: taken out, run, and compared with what the page says that they print.

`python tests/docs/docs_pages.py docs/tutorials/torch.md` writes into a page what its commands print today.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("torch", "tensorflow", "jax")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"# (\S+\.py)\n")


@dataclass
class Page:
    path: Path
    programs: dict[str, str]  # by file name
    loose: list[str]  # Python without a name, and output without a command: nobody could run it
    sessions: list[tuple[str, str]]  # commands, and what they are said to print

    @property
    def framework(self):
        text = "\n".join(self.programs.values())
        return next((name for name in FRAMEWORKS if re.search(rf"^\s*import {name}\b", text, re.MULTILINE)), "torch")


def pages():
    docs = ROOT / "docs"
    return [
        read(path)
        for path in (docs / "index.md", *sorted(docs.glob("tutorials/*.md")), *sorted(docs.glob("recipes/*.md")))
    ]


def read(path):
    page = Page(path, {}, [], [])
    for language, text in _FENCE.findall(path.read_text()):
        if language == "python":
            named = _NAMED.match(text)
            if named and named[1] not in page.programs:
                page.programs[named[1]] = text
            else:
                page.loose.append(text)
        elif language == "":
            parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
            if parts[0]:
                page.loose.append(text)
            page.sessions += zip(parts[1::2], parts[2::2])
    return page


def printed(framework, pages, folder):
    """What the commands of these pages print, a list a page, with the folders' names left out."""
    work = []
    for number, page in enumerate(pages):
        place = Path(folder, str(number)).resolve()
        place.mkdir()
        for name, text in page.programs.items():
            (place / name).write_text(text)
        work.append((str(place), [command for command, _ in page.sessions]))
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("host.py")), framework],
        input=json.dumps(work), env={**os.environ, **quiet}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [[clean(text, place) for text in told] for (place, _), told in zip(work, json.loads(done.stdout))]


def clean(text, place):
    """Without the folder's name, and without what TensorFlow's libraries log as they are loaded."""
    text = re.sub(r"^(WARNING: All log messages before|[IWE]\d{4} \d\d:).*\n", "", text, flags=re.MULTILINE)
    return text.replace(f"{place}/", "").replace(place, Path(place).name).strip("\n")


def matches(said, told):
    """Whether that is what the page says. `...` on a line stands for any lines; times and counts of events differ."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n" for line in plain(said).split("\n")
    )
    return re.fullmatch(pattern, plain(told) + "\n") is not None


def plain(text):
    text = re.sub(r"(?m)^ *[~^][ ~^]*\n", "", text)  # a traceback's marks, which each Python sets anew
    text = re.sub(r"[\d,]+(\.\d+)? (events|nodes|s\b)", r"N \2", text.strip("\n"))
    text = re.sub(r"alive then: [\d.]+ ", "alive then: N ", text)  # the recorder is a tenth of a second behind
    return re.sub(r"→ \[\d+\]|\w+\[\d+\](?= \()", "[N]", text)  # which one of many was looked at


def fill(path):
    page = read(path)
    with tempfile.TemporaryDirectory() as folder:
        (told,) = printed(page.framework, [page], folder)
    text = path.read_text()
    for (command, said), now in zip(page.sessions, told):
        if not matches(said, now):
            text = text.replace(f"$ {command}\n{said}", f"$ {command}\n{now}\n\n", 1)
    path.write_text(_FENCE.sub(lambda fence: f"```{fence[1]}\n{fence[2].strip()}\n```", text))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        fill(Path(name))
