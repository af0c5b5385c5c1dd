"""examples/sharing_stores.py: every function gives what it says, with TensorFlow eager and in graphs."""

import importlib.util
from pathlib import Path

import pytest

import tenure

FILE = Path(__file__).parents[2] / "examples" / "sharing_stores.py"


@pytest.fixture(scope="module")
def examples():
    spec = importlib.util.spec_from_file_location("sharing_stores", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_the_functions_give(examples, capsys, tf, torch, jax, np):
    store = tenure.Store("memory:")
    assert examples.a_tensor_from_another_function(store) == [8, 10, 12]
    assert examples.a_tensor_from_another_function_in_a_graph(store) == [8, 10, 12]
    assert examples.a_tensor_that_outlives_its_scope(store) == (256.0, 256 * 256 * 4)
    assert examples.one_tensor_in_two_frameworks(store) == ("jaxlib", 120.0, False)
    assert examples.writers_that_do_not_overwrite_each_other(store) == [400.0]
    assert examples.what_remains(store) == 1024 * 1024
    told = capsys.readouterr().out
    assert "'w' is in use and was not deleted\n  leased: " in told
    assert "retained by local weights (sharing_stores.py:" in told
    assert "deleted: " in told


def test_in_two_processes(examples, tmp_path, np):
    assert examples.another_process(tmp_path / "store") == "6.0"
