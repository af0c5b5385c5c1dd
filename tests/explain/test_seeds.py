"""The programs of examples/seeds: what really happens, what tenure says of it, and the repaired program, which runs."""

import importlib.util
import re
from pathlib import Path

import pytest

import tenure

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples" / "seeds").glob("*.py"))
RESULTS = {
    "scope_1_session_over_returned": [10, 20, 30],
    "scope_2_session_first": [10, 20, 30],
    "scope_3_global_storage": [80, 100],
    "scope_4_list_from_loop": [[0, 1, 2], [1, 2, 3], [2, 3, 4]],
    "inaccessible_1_returned_eager": [1.5, 2.5],
    "inaccessible_2_python_if": 1,
    "inaccessible_3_second_name": [8, 10],
    "shared_1_return": [2.5, 3.5],
    "shared_2_global_variable": [7.0, 8.0],
    "shared_3_get_variable": True,
    "session_1_with": 30,
    "session_2_finally": 30,
    "session_3_closed": 30,
    "dispose_1_tensorflow": 16,
    "dispose_2_torch_del": (32, [5, 6, 7, 8]),
    "dispose_3_dependency": [3.0, 4.0],
}
# What is raised, where something is; the rest gives the repaired program's result.
RAISES = {
    "TN202": (RuntimeError, AttributeError),  # the second where something else has put an operation into the graph
    "TN201": RuntimeError, "TN402": ValueError,
    "dispose_1_tensorflow": AttributeError, "dispose_2_torch_del": UnboundLocalError, "dispose_3_dependency": AttributeError,
}  # fmt: skip


def load(path):
    spec = importlib.util.spec_from_file_location(f"seed_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_seed(path):
    module = load(path)
    assert module.repaired() == RESULTS[path.stem]
    kind = RAISES.get(path.stem) or RAISES.get(module.TENURE)
    if kind is None:
        assert module.asked() == RESULTS[path.stem]
        return
    with pytest.raises(kind) as caught:
        module.asked()
    finding = tenure.explain(caught.value)
    assert (finding and finding.code) == module.TENURE
    if finding:
        assert any(place.file == str(path) for place in finding.places)


def test_the_table_has_every_seed():
    table = (ROOT / "docs" / "claims.md").read_text()
    named = re.findall(r"\(\.\./examples/seeds/(\w+)\.py\)", table)
    assert sorted(named) == sorted(path.stem for path in FILES) == sorted(RESULTS)
    for path in FILES:
        code = re.search(r"^TENURE = (.+)$", path.read_text(), re.MULTILINE)[1].strip("\"'")
        row = next(line for line in table.splitlines() if f"/{path.stem}.py)" in line)
        assert ("TN" not in row) if code == "None" else (code in row)
