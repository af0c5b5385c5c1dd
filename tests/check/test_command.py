"""`tenure check` as people run it: formats, settings, suppressions, baselines, fixes, bad input."""

import ast
import json
import os
import subprocess
import sys

import pytest

from tenure.cli import main
from tenure.lint.one_file import INTERNAL_ERROR

LEAK = """\
import torch


def train(model, loader, optimizer, criterion):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        total += loss  # kept
    return total
"""
CLEAN = LEAK.replace("+= loss ", "+= loss.item() ")
FIXED = LEAK.replace("+= loss ", "+= loss.detach() ")


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENURE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def check(capsys):
    def run(*words):
        code = main(["check", *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_a_finding_has_its_place_and_exit_code(tmp_path, check):
    (tmp_path / "train.py").write_text(LEAK)
    code, out, _ = check("train.py", "--format", "json")
    (finding,) = json.loads(out)
    assert code == 1
    assert (finding["code"], finding["file"], finding["line"], finding["column"]) == ("TN301", "train.py", 9, 9)
    assert {site["role"] for site in finding["sites"]} == {"holder", "birth"}
    assert finding["fix"]["safe"]
    assert "error[TN301]" in check("train.py")[1]
    assert check("train.py", "--format", "concise")[1].startswith("train.py:9:9: TN301 ")
    assert check("train.py", "--format", "github")[1].startswith("::error ")


def test_nothing_found_is_zero_and_an_empty_array(tmp_path, check):
    (tmp_path / "train.py").write_text(CLEAN)
    assert check(".", "--format", "json") == (0, "[]\n", "")


def test_selecting(tmp_path, check):
    (tmp_path / "train.py").write_text(LEAK)
    assert check(".", "--select", "TN2")[0] == 0
    assert check(".", "--select", "TN3")[0] == 1
    assert check(".", "--select", "loss-accumulated-with-graph")[0] == 1
    assert check(".", "--ignore", "TN301")[0] == 0
    assert check(".", "--exit-zero")[0] == 0
    code, _, err = check(".", "--select", "TN999")
    assert code == 2
    assert "TN999: no such rule" in err


def test_statistics(tmp_path, check):
    (tmp_path / "train.py").write_text(LEAK)
    assert check(".", "--statistics")[1].split() == ["1", "TN301", "loss-accumulated-with-graph"]


@pytest.mark.parametrize(
    "comment", ["# tenure: ignore[TN301]", "# tenure: ignore", "# noqa: TN301", "# noqa: E501, TN301", "# noqa"]
)
def test_comments_silence(tmp_path, check, comment):
    (tmp_path / "train.py").write_text(LEAK.replace("# kept", comment))
    assert check("train.py")[0] == 0


def test_a_comment_that_silences_nothing_is_told(tmp_path, check):
    (tmp_path / "train.py").write_text(CLEAN.replace("# kept", "# tenure: ignore[TN301]"))
    code, _, err = check("train.py")
    assert code == 0
    assert "train.py:9: this comment silences nothing (TN301)" in err
    (tmp_path / "train.py").write_text(LEAK.replace("# kept", "# noqa: TN207"))
    assert check("train.py")[0] == 1


def test_settings_of_the_project(tmp_path, check):
    (tmp_path / "train.py").write_text(LEAK)
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.tenure]\nignore = ["TN301"]\n')
    assert check(".")[0] == 0
    assert check(".", "--isolated")[0] == 1
    project.write_text('[tool.tenure.per-file-ignores]\n"train.py" = ["TN3"]\n')
    assert check(".")[0] == 0
    project.write_text('[tool.tenure]\nexclude = ["train.py"]\n')
    assert check(".")[0] == 0
    project.write_text('[tool.tenure]\nselct = ["TN3"]\n')
    code, _, err = check(".")
    assert code == 2
    assert "did you mean 'select'?" in err


def test_a_baseline_excuses_what_was_there(tmp_path, check):
    file = tmp_path / "train.py"
    file.write_text(LEAK)
    assert check(".", "--write-baseline", "old.json")[0] == 0
    assert check(".", "--baseline", "old.json")[0] == 0
    file.write_text("# moved\n\n" + LEAK)
    assert check(".", "--baseline", "old.json")[0] == 0
    file.write_text(LEAK + LEAK.replace("def train", "def train_again"))
    code, out, _ = check(".", "--baseline", "old.json", "--format", "json")
    assert code == 1
    assert len(json.loads(out)) == 1
    (tmp_path / "bad.json").write_text("[]")
    assert check(".", "--baseline", "bad.json")[0] == 2
    assert check(".", "--baseline", "none.json")[0] == 2


def test_fixing_keeps_the_rest_and_is_done_once(tmp_path, check):
    file = tmp_path / "train.py"
    file.write_text(LEAK)
    code, out, _ = check("train.py", "--diff")
    assert code == 1
    assert "+        total += loss.detach()  # kept" in out
    assert file.read_text() == LEAK
    assert check("train.py", "--fix")[0] == 0
    fixed = file.read_text()
    assert fixed == LEAK.replace("+= loss ", "+= loss.detach() ")
    check("train.py", "--fix")
    assert file.read_text() == fixed


def test_fixing_keeps_line_ends_and_wide_characters(tmp_path, check):
    text = LEAK.replace("total += loss", "größe = '日本'; total += loss")
    file = tmp_path / "train.py"
    file.write_bytes(text.replace("\n", "\r\n").encode())
    assert check("train.py", "--fix")[0] == 0
    assert file.read_bytes() == text.replace("+= loss ", "+= loss.detach() ").replace("\n", "\r\n").encode()


def test_unsafe_fixes_wait_to_be_asked(tmp_path, check):
    source = "import torch\nx = torch.randn(3, requires_grad=True)\ny = torch.exp(x)\ny += 1\ny.sum().backward()\n"
    file = tmp_path / "f.py"
    file.write_text(source)
    assert check("f.py", "--fix")[0] == 1
    assert file.read_text() == source
    assert check("f.py", "--fix", "--unsafe-fixes")[0] == 0
    assert "y = y + 1" in file.read_text()


def test_a_suppressed_line_is_not_fixed(tmp_path, check):
    file = tmp_path / "train.py"
    file.write_text(LEAK.replace("# kept", "# tenure: ignore[TN301]"))
    before = file.read_text()
    check("train.py", "--fix")
    assert file.read_text() == before


def test_standard_input():
    done = subprocess.run(
        [sys.executable, "-m", "tenure", "check", "-", "--stdin-filename", "a.py", "--format", "concise"],
        input=LEAK, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.partition(" ")[0]) == (1, "a.py:9:9:")


def test_notebooks(tmp_path, check):
    cells = [
        {"cell_type": "markdown", "source": ["# hello"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch"]},
        {"cell_type": "code", "source": LEAK.splitlines(keepends=True)[3:]},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    code, out, _ = check(".", "--format", "json")
    (finding,) = json.loads(out)
    assert code == 1
    assert (finding["code"], finding["line"], finding["evidence"]["cell"]) == ("TN301", 6, 3)


def test_the_second_run_is_from_the_cache(tmp_path, check, monkeypatch):
    (tmp_path / "train.py").write_text(LEAK)
    first = check("train.py", "--format", "json")

    from tenure.lint import runner

    monkeypatch.setattr(runner, "check_bytes", lambda *a: pytest.fail("checked again"))
    assert check("train.py", "--format", "json") == first


def test_a_changed_import_is_seen_in_spite_of_the_cache(tmp_path, check):
    helper = tmp_path / "helper.py"
    keep = "class Log:\n    def __init__(self):\n        self.items = []\n\n    def add(self, x):\n        {}\n"
    helper.write_text(keep.format("self.items.append(x)"))
    (tmp_path / "main.py").write_text(
        "import jax\nfrom helper import Log\n\nlog = Log()\n\n@jax.jit\ndef f(x):\n    log.add(x * 2)\n    return x\n\nf(1.0)\n"
    )
    code, out, _ = check("main.py", "--format", "json")
    assert (code, json.loads(out)[0]["code"], json.loads(out)[0]["file"]) == (1, "TN101", "main.py")
    helper.write_text(keep.format("print(x)"))
    assert check("main.py")[0] == 0


def test_files_that_import_from_themselves_or_from_each_other(tmp_path, check):
    """`accelerate.py` imports from the package of that name: next to it there is only itself."""
    rest = "\n\ndef main(model):\n    place(model)\n    loss = model(1).sum()\n    loss.backward()\n\nmain(1)\n"
    (tmp_path / "accelerate.py").write_text("import torch\nfrom accelerate import place" + rest)
    (tmp_path / "one.py").write_text("import torch\nfrom two import place" + rest)
    (tmp_path / "two.py").write_text("import torch\nfrom one import place" + rest)
    assert check("accelerate.py", "one.py", "two.py") == (0, "", "tenure: no findings in 3 files\n")


def test_bad_files_are_told_and_the_others_checked(tmp_path, check):
    (tmp_path / "good.py").write_text(LEAK)
    (tmp_path / "syntax.py").write_text("import torch\nfor x in range(3:\n    x.backward()\n")
    (tmp_path / "coding.py").write_bytes(b"# -*- coding: klingon -*-\nimport torch\nx.backward()\n")
    (tmp_path / "bytes.py").write_bytes(b"import torch\nx = '\xff\xfe'\nx.backward()\n")
    (tmp_path / "null.py").write_bytes(b"import torch\nx.backward()\0\n")
    (tmp_path / "deep.py").write_text("import torch\nx.backward()\ny = " + "(" * 5000 + ")" * 5000 + "\n")
    (tmp_path / "nested.py").write_text("import torch\nx.backward()\ny = " + "-" * 20000 + "1\n")
    (tmp_path / "a.ipynb").write_text("{")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "dead.py").symlink_to(tmp_path / "nowhere.py")
    code, out, err = check(".", "--format", "json")
    assert code == 1
    assert [f["file"] for f in json.loads(out)] == ["./good.py"]
    for name in ("syntax.py", "coding.py", "bytes.py", "null.py", "deep.py", "nested.py", "a.ipynb", "dead.py"):
        lines = [line for line in err.splitlines() if f"/{name}: " in line]
        assert len(lines) == 1, name
        assert INTERNAL_ERROR not in lines[0]
    assert len(err.splitlines()) == 8


def test_a_path_that_is_not_there(check):
    code, out, err = check("nowhere")
    assert (code, out, err) == (2, "", "tenure: nowhere: no such file or folder\n")


def test_a_very_long_file(tmp_path, check):
    tail = "def f(loss):\n    loss.backward()\n    loss.backward()\n"
    (tmp_path / "long.py").write_text("import torch\n" + "x = 1\n" * 1_000_000 + tail)
    (tmp_path / "short.py").write_text("import torch\n" + "x = 1\n" * 10_000 + tail)
    code, out, err = check(".", "--format", "json", "--no-cache")
    assert (code, err) == (1, "tenure: ./long.py: it is too long to check: 1,000,004 lines; the limit is 300,000\n")
    assert [(f["code"], f["line"]) for f in json.loads(out)] == [("TN208", 10_004)]


def test_rules_are_listed(capsys):
    assert main(["rules"]) == 0
    out = capsys.readouterr().out
    assert "TN301  loss-accumulated-with-graph" in out
    assert main(["rules", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert all("check" in one["found by"] for one in told if one["code"][2] in "1234")


def test_a_fix_keeps_encoding_byte_order_mark_and_line_ends(tmp_path, check):
    latin = f"# coding: latin-1\nname = 'Grüße'\n{LEAK}".encode("latin-1")
    marked = b"\xef\xbb\xbf" + LEAK.encode().replace(b"\n", b"\r\n")
    mixed = LEAK.replace("\n\n\n", "\r\n\n\r\n").replace("y in loader:\n", "y in loader:\r").encode()
    for name, raw in {"latin.py": latin, "marked.py": marked, "mixed.py": mixed}.items():
        (tmp_path / name).write_bytes(raw)
    assert check(".", "--fix")[0] == 0
    for name, raw in {"latin.py": latin, "marked.py": marked, "mixed.py": mixed}.items():
        assert (tmp_path / name).read_bytes() == raw.replace(b"+= loss ", b"+= loss.detach() ")


def test_lines_that_a_fix_adds_end_as_those_around_them():
    from tenure.lint.stored_text import Stored

    assert Stored(b"a\r\nb\nc\r\nd").encoded("a\nb\nc\nnew\nd") == b"a\r\nb\nc\r\nnew\r\nd"
    assert Stored(b"a\r\nb\nc\n").encoded("new\na\nc\n") == b"new\r\na\r\nc\n"
    assert Stored(b"a\rb").encoded("a\nnew\nb") == b"a\rnew\rb"
    assert Stored(b"").encoded("") == b""


def test_a_fixed_file_stays_what_it_was(tmp_path, check):
    real = tmp_path / "real.txt"
    real.write_text(LEAK)
    real.chmod(0o754)
    (tmp_path / "link.py").symlink_to("real.txt")
    assert check("link.py", "--fix")[0] == 0
    assert (tmp_path / "link.py").is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == (FIXED, 0o754)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "link.py", "real.txt"]


def test_a_file_with_a_second_hard_link_is_not_fixed(tmp_path, check):
    (tmp_path / "a.py").write_text(LEAK)
    (tmp_path / "shared.txt").hardlink_to(tmp_path / "a.py")
    code, _, err = check("a.py", "--fix")
    assert (code, (tmp_path / "a.py").read_text(), (tmp_path / "shared.txt").read_text()) == (1, LEAK, LEAK)
    assert "a.py: not fixed: the file has 2 hard links" in err
    assert (tmp_path / "a.py").samefile(tmp_path / "shared.txt")


def test_a_fix_that_cannot_be_written_leaves_the_file(tmp_path):
    (tmp_path / "a.py").write_text(LEAK)
    # Nothing that this process writes may be longer than 100 bytes, as where a disk is full.
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "from tenure.cli import main; raise SystemExit(main(['check', '--no-cache', 'a.py', '--fix']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, (tmp_path / "a.py").read_text()) == (1, LEAK)
    assert "a.py: not fixed: File too large; the file is unchanged" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


@pytest.mark.parametrize("options", [["--fix"], ["--diff"], []])
def test_source_on_standard_input_keeps_its_encoding(tmp_path, options):
    source = f"# coding: latin-1\nname = 'Grüße'\n{LEAK}".replace("\n", "\r\n").encode("latin-1")
    clean = b"# coding: latin-1\nprint('Gr\xfc\xdfe')\n"
    words = [sys.executable, "-m", "tenure", "check", "-", *options]
    for raw, other in {source: source.replace(b"+= loss ", b"+= loss.detach() "), clean: clean}.items():
        done = subprocess.run(words, input=raw, capture_output=True, cwd=tmp_path, check=False)
        assert not done.stderr
        assert options != ["--fix"] or done.stdout == other
        assert (b".detach()" in done.stdout) == (raw == source)


def test_bytes_that_are_no_text_on_standard_input(tmp_path):
    raw = b"import torch\nloss.backward()\nname = '\xfc'\n"
    for options in (["--fix"], ["--diff"], []):
        words = [sys.executable, "-m", "tenure", "check", "-", *options]
        done = subprocess.run(words, input=raw, capture_output=True, cwd=tmp_path, check=False)
        assert done.returncode == 1
        assert b"Traceback" not in done.stderr
        assert b"<stdin>: " in done.stderr
        assert done.stdout == (raw if options == ["--fix"] else b"")


def test_pipes_and_devices_are_named_and_not_read(tmp_path):
    os.mkfifo(tmp_path / "b.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "zero.ipynb").symlink_to("/dev/zero")
    (tmp_path / "train.py").write_text(f"import b, zero\n{LEAK}")
    done = subprocess.run(
        [sys.executable, "-m", "tenure", "check", "."], capture_output=True, text=True, cwd=tmp_path, check=False,
        timeout=60,
    )  # fmt: skip
    assert "error[TN301]" in done.stdout
    for name in ("b.py", "zero.py", "zero.ipynb"):
        assert f"{name}: it cannot be read: it is not a regular file" in done.stderr


def test_a_file_that_is_too_large_is_not_read(tmp_path, check):
    with (tmp_path / "large.py").open("wb") as file:
        file.truncate(1 << 40)
    assert "large.py: it cannot be read: it has 1,099,511,627,776 bytes" in check("large.py")[2]


def notebook(*cells, **about):
    told = [{"cell_type": "code", "source": cell} for cell in cells]
    return json.dumps({"cells": told, "metadata": about, "nbformat": 4})


# Each is a cell of IPython's, and what Python makes of it, line for line.
CELLS = {
    "x = !ls": "x = get_ipython()",
    "a, b = %magic 1": "a, b = get_ipython()",
    "x = %time f()": "x = f()",
    "%time y = f()": "y = f()",
    "!ls \\\n  -l\ny = 1": "pass\n\ny = 1",
    "x = %magic \\\n  more\ny = 1": "x = get_ipython()\n\ny = 1",
    "y = f(x)  # right?": "y = f(x)  # right?",
    "y = 'right?'": "y = 'right?'",
    "z = (a\n% b)": "z = (a\n% b)",
    "z = a \\\n% b": "z = a \\\n% b",
    "z = '''\n%b\n!c\n'''": "z = '''\n%b\n!c\n'''",
    "x %= 2\nif x != y: pass": "x %= 2\nif x != y: pass",
    "f?\nx = 1": "pass\nx = 1",
    "?f": "pass",
    "for x in y:\n    %magic {x}\n    !ls": "for x in y:\n    pass\n    pass",
    "%%time\n!ls\nx = 1": "pass\npass\nx = 1",
    "\n%%capture out\n%%time\nx = 1": "\npass\npass\nx = 1",
    "%%bash\nls": "pass\npass",
    "pip install x": "pass",
    ">>> x = 1\n... y = 2": "x = 1\ny = 2",
    "    x = 1\n    y = 2": "x = 1\ny = 2",
}


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_of_ipython_as_python(cell):
    from tenure.lint.notebooks import source

    text, where = source(notebook("first = 1", cell).encode())
    assert text == f"first = 1\n{CELLS[cell]}\n"
    assert where == [(1, 1), *((2, line) for line in range(1, cell.count("\n") + 2))]
    ast.parse(text)


@pytest.mark.parametrize("cell", CELLS)
def test_ipython_takes_these_cells_for_code(cell):
    from IPython.core.inputtransformer2 import TransformerManager

    ast.parse(TransformerManager().transform_cell(cell) if cell != "pip install x" else "")


def test_what_ordinary_notebooks_hold(tmp_path, check):
    body = LEAK.replace("# kept", "# right?")
    (tmp_path / "a.ipynb").write_text(notebook("files = !ls", "%load_ext tenure", f"%%time\n{body}", "print('\ud800')"))
    code, out, err = check("a.ipynb", "--format", "json")
    (finding,) = json.loads(out)
    assert (code, err, finding["line"], finding["evidence"]["cell"]) == (1, "", 10, 3)


def test_notebooks_that_are_none_or_not_of_python(tmp_path, check):
    (tmp_path / "number.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["x", 5]}]}))
    (tmp_path / "cells.ipynb").write_text(json.dumps({"cells": [5]}))
    (tmp_path / "deep.ipynb").write_text("[" * 100_000)
    (tmp_path / "many.ipynb").write_text("[" + "[]," * 4_000_000 + "[]]")
    (tmp_path / "broken.ipynb").write_text(notebook("import torch", f"{LEAK}\nx = ("))
    (tmp_path / "r.ipynb").write_text(notebook("torch <- function(x) x", kernelspec={"language": "R"}))
    (tmp_path / "none.ipynb").write_text("{}")
    (tmp_path / "odd.ipynb").write_text(notebook(LEAK, kernelspec=5, language_info=[1]))
    (tmp_path / "old.ipynb").write_text(json.dumps({"worksheets": [{"cells": [{"cell_type": "code", "input": LEAK}]}]}))
    code, out, err = check(".", "--format", "concise")
    assert code == 1
    assert [line.partition(":")[0] for line in out.splitlines()] == ["./odd.ipynb", "./old.ipynb"]
    assert sorted(err.splitlines()) == [
        "tenure: ./broken.ipynb: cell 2, line 12: '(' was never closed",
        "tenure: ./cells.ipynb: it is not a notebook: it has no list of cells",
        "tenure: ./deep.ipynb: it is not a notebook: it is nested too deeply",
        "tenure: ./many.ipynb: it is not a notebook: it contains more than 3,000,000 values",
        "tenure: ./none.ipynb: it is not a notebook: it has no list of cells",
        "tenure: ./number.ipynb: it is not a notebook: the source of cell 1 is not text",
    ]


def test_findings_are_coloured_where_that_is_wanted(tmp_path, check, monkeypatch):
    (tmp_path / "train.py").write_text(LEAK)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in check("train.py")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;31merror[TN301]\x1b[0m" in check("train.py")[1]
    assert "\x1b" not in check("train.py", "--format", "concise")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in check("train.py")[1]


def test_a_project_inside_of_another_one_does_not_hide_its_settings(tmp_path, check):
    (tmp_path / "pyproject.toml").write_text('[tool.tenure]\nignore = ["TN301"]\n')
    inner = tmp_path / "packages" / "inner"
    inner.mkdir(parents=True)
    (inner / "train.py").write_text(LEAK)
    assert check("packages/inner")[0] == 0
    for text in (
        '[project]\nname = "inner"\n',
        '[project]\nname = "tenure-user"\n',
        "tool = 5\n# tenure\n",
        "= broken",
    ):
        (inner / "pyproject.toml").write_text(text)
        assert check("packages/inner")[0] == 0
    (inner / "pyproject.toml").write_text('[tool.tenure]\nignore = ["TN2"]\n')
    assert check("packages/inner")[0] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select = [1]", "'select' in [tool.tenure] must be a list of strings"),
        ('select = "TN3"', "'select' in [tool.tenure] must be a list of strings"),
        ('exclude = ["a", {}]', "'exclude' in [tool.tenure] must be a list of strings"),
        ("baseline = 5", "'baseline' in [tool.tenure] must be a string"),
        ('per-file-ignores = ["TN3"]', "'per-file-ignores' in [tool.tenure] must be a table"),
        ('[tool.tenure.per-file-ignores]\n"a.py" = "TN3"', "'a.py' in [tool.tenure.per-file-ignores] must be a list"),
        ('[tool.tenure.per-file-ignores]\n"a.py" = [3]', "'a.py' in [tool.tenure.per-file-ignores] must be a list"),
    ],
)
def test_settings_of_a_wrong_type(tmp_path, check, text, words):
    (tmp_path / "train.py").write_text(LEAK)
    (tmp_path / "pyproject.toml").write_text(f"[tool.tenure]\n{text}\n")
    code, _, err = check("train.py")
    assert (code, words in err) == (2, True), err


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "large"])
def test_a_baseline_that_is_no_plain_file_or_too_large(tmp_path, check, name):
    (tmp_path / "train.py").write_text(LEAK)
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    code, _, err = check("train.py", "--baseline", name)
    assert code == 2
    assert err.startswith(f"tenure: cannot read the baseline {name}: "), err


def test_what_is_only_likely_is_a_warning_in_every_format(tmp_path, check):
    driver = """\
import torch


def start():
    net = torch.nn.Linear(2, 1)
    kept = []
    for _ in range(1000):
        loss = net(torch.ones(1, 2)).sum()
        loss.backward()
        net.zero_grad()
        del loss
        kept.append(net(torch.ones(1, 2)))
    print(len(kept))
"""
    (tmp_path / "train.py").write_text(driver)
    code, out, _ = check("train.py", "--format", "json")
    (finding,) = json.loads(out)
    assert code == 1
    assert (finding["severity"], finding["certain"], finding["fix"]["safe"]) == ("warning", False, False)
    assert "warning[TN302]" in check("train.py")[1] and "(likely)" in check("train.py")[1]
    assert check("train.py", "--format", "concise")[1].rstrip().endswith("(likely)")
    assert check("train.py", "--format", "github")[1].startswith("::warning ")
    (result,) = json.loads(check("train.py", "--format", "sarif")[1])["runs"][0]["results"]
    assert result["level"] == "warning" and result["properties"]["certain"] is False
    check("train.py", "--fix")
    assert (tmp_path / "train.py").read_text() == driver
    (tmp_path / "train.py").write_text(driver + "\n\nstart()\n")
    assert "error[TN302]" in check("train.py")[1]


def test_a_check_without_findings_ends_with_a_line(tmp_path, check):
    assert check(".") == (0, "", "tenure: no Python files here\n")
    (tmp_path / "empty").mkdir()
    assert check("empty") == (0, "", "tenure: no Python files in empty\n")
    (tmp_path / "train.py").write_text(CLEAN)
    assert check(".") == (0, "", "tenure: no findings in 1 file\n")
    (tmp_path / "other.py").write_text(LEAK)
    assert check(".", "--ignore", "tn301") == (0, "", "tenure: no findings in 2 files\n")
    assert check(".", "--ignore", "tn3", "-q") == (0, "", "")
    assert check(".", "--ignore", "Loss-Accumulated-With-Graph", "--format", "concise") == (0, "", "")
    assert "findings in" not in check(".")[2]
    assert check(".", "--write-baseline", "old.json")[0] == 0
    assert check(".", "--baseline", "old.json") == (0, "", "tenure: no new findings in 2 files\n")
    (tmp_path / "broken.py").write_text("import torch\nfor x in range(3:\n    x.backward()\n")
    assert "findings in" not in check(".", "--ignore", "TN301")[2]


@pytest.mark.parametrize("comment", ["# tenure: ignore[tn301]", "# noqa: tn301"])
def test_codes_in_comments_are_case_insensitive(tmp_path, check, comment):
    (tmp_path / "train.py").write_text(LEAK.replace("# kept", comment))
    assert check("train.py")[0] == 0
