"""`tenure store`: what it lists, what it finds, what it clears away, and what it says where there is no store."""

import json
import os

import numpy as np
import pytest

import tenure
from tenure.cli import main


@pytest.fixture
def folder(tmp_path):
    with tenure.Store(f"file:{tmp_path / 'weights'}") as store:
        store["encoder/w"] = np.zeros((3, 4), np.float32)
        store["encoder/w"] = np.ones((3, 4), np.float32)
        store["b"] = np.arange(1000)
    return tmp_path / "weights"


def test_ls(folder, capsys):
    assert main(["store", "ls", str(folder)]) == 0
    b, w, total = capsys.readouterr().out.splitlines()
    assert b.split() == ["b", "numpy", "I64[1000]", "7.8", "KiB", "version", "1", "put", "at", b.split()[-1]]
    assert w.startswith("encoder/w  numpy F32[3, 4]  48 bytes  version 2  put at test_store.py:")
    assert total == "2 tensors, 7.9 KiB"


def test_ls_as_json(folder, capsys):
    with tenure.Store(f"file:{folder}") as store, store.lease("b"):
        assert main(["store", "ls", f"file:{folder}", "--format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["name"], first["leases"], first["nbytes"]) == ("b", 1, 8000)
    assert second["put"]["site"]["file"] == __file__
    assert os.path.exists(second["file"])


def test_check(folder, capsys):
    assert main(["store", "check", str(folder)]) == 0
    assert capsys.readouterr().out == "2 tensors, 7.9 KiB read: none damaged\n"
    (file,) = (folder / "tensors").glob("b.*")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert main(["store", "check", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "damaged: b: its bytes are not those that were put (the checksum differs)" in out
    assert f"file: {file}" in out
    assert "2 tensors, 7.9 KiB read: 1 damaged" in out
    assert main(["store", "check", str(folder), "--format", "json"]) == 1
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["b"]


def test_gc(folder, capsys):
    (folder / "tensors" / "w.v1-0123456789ab.safetensors").write_bytes(b"12345")
    assert main(["store", "gc", str(folder), "--dry-run"]) == 0
    assert (
        "would remove tensors/w.v1-0123456789ab.safetensors  5 bytes  no name refers to it" in capsys.readouterr().out
    )
    assert main(["store", "gc", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("removed 1 file, 5 bytes\n")
    assert len(os.listdir(folder / "tensors")) == 2


def test_where_there_is_no_store(tmp_path, capsys):
    for what in ("ls", "check", "gc"):
        assert main(["store", what, str(tmp_path / "none")]) == 2
        assert capsys.readouterr().err == f"tenure: file:{tmp_path}/none is not a store: it has no index.sqlite\n"
    assert os.listdir(tmp_path) == []
    assert main(["store", "burn", str(tmp_path)]) == 2
