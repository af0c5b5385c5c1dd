"""`tenure check` as people run it: formats, settings, suppressions, baselines, fixes, bad input."""

import json
import subprocess
import sys

import pytest

from tenure.cli import main

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
    from tenure.check import engine

    monkeypatch.setattr(engine, "check_bytes", lambda *a: pytest.fail("checked again"))
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
        assert "tenure's own" not in lines[0]
    assert len(err.splitlines()) == 8


def test_a_path_that_is_not_there(check):
    code, out, err = check("nowhere")
    assert (code, out, err) == (2, "", "tenure: nowhere: no such file or folder\n")


def test_a_very_long_file(tmp_path, check):
    tail = "def f(loss):\n    loss.backward()\n    loss.backward()\n"
    (tmp_path / "long.py").write_text("import torch\n" + "x = 1\n" * 1_000_000 + tail)
    (tmp_path / "short.py").write_text("import torch\n" + "x = 1\n" * 10_000 + tail)
    code, out, err = check(".", "--format", "json", "--no-cache")
    assert (code, err) == (1, "tenure: ./long.py: it has 1000004 lines: too long to be checked, it may have 300000\n")
    assert [(f["code"], f["line"]) for f in json.loads(out)] == [("TN208", 10_004)]


def test_rules_are_listed(capsys):
    assert main(["rules"]) == 0
    out = capsys.readouterr().out
    assert "TN301  loss-accumulated-with-graph" in out
    assert main(["rules", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert all("check" in one["found by"] for one in told if one["code"][2] in "1234")
