"""Extract the programs and commands of a page, run them, and compare their output with what the page shows.

`python tests/docs/docs_pages.py docs/tutorials/torch.md` writes the current output of its commands into a page.
"""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("torch", "tensorflow", "jax")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What the frameworks' libraries log as they are loaded.
LOGGED = re.compile(r"^(WARNING: All log messages before|[IWE]\d{4} \d\d:).*\n", re.MULTILINE)
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
        elif language in ("", "console"):
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
        if any("examples/" in command for command, _ in page.sessions):
            shutil.copytree(ROOT / "examples", place / "examples")
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
    text = LOGGED.sub("", text)
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
    text = re.sub(
        r"(?<=tenure: peak memory )[\d.]+ (.*) in step \d+;(.*\n(tenure:   .*\n)*)", r"N \1 in step N;\2", text
    )
    text = re.sub(r"[\d,]+ (?=buffers allocated)", "N ", text)  # a search for holders makes some in TensorFlow
    # The last steps of a loop are equally large, and which one is largest depends on when TensorFlow frees.
    text = re.sub(r"(?<=Peak memory is )[\d.]+|(?<=Peak memory: )[\d.]+|(?<=, in step )\d+", "N", text)
    text = re.sub(r"[\d.]+ ([KMG]iB \(\d+%\) of it not used again)", r"N \1", text)
    text = re.sub(r"(?m)^ *[\d.]+ [KMG]iB +\d+ x (.*)\([\d.]+ ([KMG]iB not used again\))$", r"N x \1(N \2", text)
    text = re.sub(r"(?<=N events, )[\d.]+ (bytes|[KMG]iB)", "N", text)  # the trace's size
    text = re.sub(
        r"allocated at that time: [\d.]+ ", "allocated at that time: N ", text
    )  # the recorder is a tenth of a second behind
    return re.sub(r"→ \[\d+\]|\w+\[\d+\](?= \()", "[N]", text)  # which one of many was looked at


def fill(path):
    page = read(path)
    with tempfile.TemporaryDirectory() as folder:
        (told,) = printed(page.framework, [page], folder)
    text = path.read_text()
    for (command, said), now in zip(page.sessions, told):
        if not matches(said, now):
            text = text.replace(f"$ {command}\n{said}", f"$ {command}\n{shortened(said, now)}\n\n", 1)
    path.write_text(_FENCE.sub(lambda fence: f"```{fence[1]}\n{fence[2].strip()}\n```", text))


def shortened(said, now):
    """The new output with the parts left out that the page leaves out: `...` stays where it was."""
    lines, kept, at = now.split("\n"), [], 0
    for part in re.split(r"^(?= *\.\.\.$)|(?<=\.\.\.)\n", said.strip("\n"), flags=re.MULTILINE):
        if part.strip() in ("", "..."):
            kept += [part] if part else []
            continue
        first, *_, last = [*part.strip("\n").split("\n")] * 2
        first = nearest(first, lines, at)
        at = nearest(last, lines, first) + 1 if "\n" in part.strip("\n") else first + 1
        kept += lines[first:at]
    return "\n".join(kept) if "..." in said.split() else now


def nearest(line, lines, start):
    """The index of the line, from start on, that is most like this one."""
    return max(range(start, len(lines)), key=lambda n: difflib.SequenceMatcher(None, line, lines[n]).ratio())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        fill(Path(name))
