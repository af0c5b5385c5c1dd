"""The examples and pages about sharing: they run, and print what they say."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [(page, *found) for page in ("sessions", "variables")
         for found in re.findall(r"```python\n(# (\S+\.py)\n.*?)```\s+```\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(), re.DOTALL)]  # fmt: skip


@pytest.mark.parametrize(("page", "program", "name", "expected"), PAGES, ids=[name for _, _, name, _ in PAGES])
def test_a_page_prints_what_it_says(page, program, name, expected, tmp_path, torch, tf):
    import tenure

    path = tmp_path / name
    path.write_text(program)
    store = tenure.Store("memory:variables")
    [store.delete(one) for one in store]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, str(path), "exec"), {"__name__": "__main__"})
    assert printed.getvalue().replace(f"{tmp_path}/", "") == expected


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sessions_as_they_should_be(tf):
    module = load("sharing_sessions")
    told = {example.__name__: example() for example in module.EXAMPLES}
    late, remains = told.pop("after_its_end"), told.pop("what_remains")
    assert told == {
        "returned_from_a_function_graph": [1, 2, 3],
        "returned_from_a_function_eager": ([1, 2, 3], "TN202"),
        "many_from_a_loop_graph": [[0, 1, 2], [1, 2, 3], [2, 3, 4]],
        "variables_have_values_graph": [30, 30],
        "an_error_in_the_block": "by ZeroDivisionError, which left its `with` block",
        "outside_of_the_block": [[1, 2, 3]],
        "asynchronous": [n * n for n in range(8)],
    }
    assert "cannot run numbers(): session 'evaluation' is already closed" in late
    assert remains[0] == 65536.0
    assert "256.0 KiB freed" in remains[1]


def test_shared_variables_as_they_should_be(tf, tmp_path):
    import tenure

    store = tenure.Store("memory:variables")
    [store.delete(one) for one in store]
    module = load("sharing_variables")
    told = {example.__name__: example() for example in module.EXAMPLES}
    taken, missing = told.pop("made_twice_by_mistake"), told.pop("never_made")
    assert told == {
        "returned": [4.0, 5.0, 6.0],
        "instead_of_a_global": [8, 10, 12],
        "one_variable_eager": (True, [[1.0, 1.0], [1.0, 1.0]]),
        "one_variable_graph": (True, "shared_scope/my_variable:0", [[1.0, 1.0], [1.0, 1.0]]),
        "a_tower_built_twice": ([3.0, 3.0], [6.0, 6.0]),
    }
    assert "already exists" in taken
    assert "near:  'never/shared_scope/my_variable'" in missing
    assert [module.between_processes(tmp_path / "s") for _ in range(2)] == [42, 42]
