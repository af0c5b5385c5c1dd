"""Every process of a program writes its own stream into one folder, however it came to be and however it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.trace import streams

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
# By its name a framework, so that the recorder starts; what it records here is what the scripts mark.
FAKE = "__version__ = '0'\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "torch.py").write_text(FAKE)
    return tmp_path


@pytest.fixture
def needs_torch():
    if "torch" not in os.environ.get("TENURE_TEST_FRAMEWORKS", "torch"):
        pytest.skip("torch is not among TENURE_TEST_FRAMEWORKS")


def call(folder, text, *, by=("-m", "tenure", "run", "--quiet", "-o", "t"), **environment):
    (folder / "s.py").write_text(text)
    done = subprocess.run(
        [sys.executable, *by, "s.py"], cwd=folder, capture_output=True, text=True, timeout=100, env=CLEAN | environment
    )
    assert done.returncode == 0, done.stderr
    return done


def told(folder):
    """What each process marked, and whether it ended its stream."""
    found = []
    for path in sorted(folder.glob("*.arrows")):
        stream = streams.open_stream(path, [])
        if stream is not None:
            names = [name for batch in stream.read(["name"]) for name in batch["name"].to_pylist()]
            ours = tuple(name for name in names if name and not name.startswith(("recording ", "trouble: ")))
            found.append((ours, stream.process))
    return found


def marks(folder):
    return sorted(mark for names, _ in told(folder) for mark in names)


# ------------------------------------------------------------------------------------------------ how they come to be


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("when", ["before", "in the child"])
def test_children_of_multiprocessing(folder, how, when):
    text = f"""
import multiprocessing as mp
{"import torch" if when == "before" else ""}
def work(n):
    import tenure, torch
    tenure.mark(f"child {{n}}")
if __name__ == "__main__":
    for n in range(2):
        process = mp.get_context("{how}").Process(target=work, args=(n,))
        process.start()
        process.join()
        assert process.exitcode == 0
    work("parent")
"""
    call(folder, text)
    found = told(folder / "t")
    assert marks(folder / "t") == ["child 0", "child 1", "child parent"]
    assert all(process.complete for _, process in found)
    assert len({process.pid for _, process in found}) == 3


def test_a_subprocess_joins_and_wipes_nothing(folder):
    child = "import torch, tenure; tenure.mark('child')"
    text = f"""
import subprocess, sys, tenure, torch
tenure.mark("before")
for more in ({{}}, {{"preexec_fn": lambda: None}}, {{"cwd": "/", "env": None}}):
    subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, {str(folder)!r}); {child}"], check=True, **more)
subprocess.run(["/bin/true"], check=True)
tenure.mark("after")
"""
    call(folder, text)
    assert marks(folder / "t") == ["after", "before", "child", "child", "child"]
    (root,) = (process for names, process in told(folder / "t") if "before" in names)
    assert {process.parent for _, process in told(folder / "t")} - {root.parent} == {root.pid}
    assert json.loads((folder / "t/meta.json").read_text())["pid"] == root.pid


@pytest.mark.parametrize("leave", ["sys.exit(0)", "pass"])
def test_a_fork(folder, leave):
    text = f"""
import os, sys, tenure, torch
if os.fork() == 0:
    tenure.mark("child")
    {leave}
else:
    os.wait()
    tenure.mark("parent")
"""
    call(folder, text)
    assert marks(folder / "t") == ["child", "parent"]
    assert all(process.complete for _, process in told(folder / "t"))


def test_a_fork_that_leaves_without_a_word(folder):
    text = """
import os, tenure, time, torch
if os.fork() == 0:
    tenure.mark("child")
    time.sleep(0.5)
    os._exit(0)
os.wait()
tenure.mark("parent")
"""
    call(folder, text)
    assert {names: process.complete for names, process in told(folder / "t")} == {("child",): False, ("parent",): True}


def test_a_program_that_calls_exec_is_two_programs(folder):
    text = """
import os, sys, tenure, time, torch
tenure.mark(f"life {len(sys.argv)}")
time.sleep(0.3)
if len(sys.argv) < 3:
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
"""
    call(folder, text)
    assert marks(folder / "t") == ["life 1", "life 2", "life 3"]
    assert len({process.pid for _, process in told(folder / "t")}) == 1


def test_who_imports_no_framework_writes_nothing_and_imports_little(folder):
    text = """
import subprocess, sys
code = "import sys; print(sorted({'pyarrow', 'numpy', 'duckdb', 'tenure.trace.recorder'} & set(sys.modules)))"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
"""
    assert call(folder, text).stdout == "[]\n\n"
    assert list((folder / "t").glob("events-*")) == []


# ------------------------------------------------------------------------------------------------ torch's own ways


def test_workers_of_a_data_loader(tmp_path, needs_torch):
    text = """
import tenure, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, n):
        tenure.mark(f"item {n}")
        return torch.full((10,), float(n))
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        print(sum(float(batch.sum()) for batch in DataLoader(Numbers(), num_workers=2, multiprocessing_context=how)))
"""
    assert call(tmp_path, text).stdout == "60.0\n60.0\n"
    found = told(tmp_path / "t")
    assert len(found) == 5
    assert marks(tmp_path / "t") == [f"item {n}" for n in range(4) for _ in ("fork", "spawn")]
    assert all(process.complete for _, process in found)


def test_ranks_of_torchrun(tmp_path, needs_torch):
    text = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
numbers = torch.ones(4) * (dist.get_rank() + 1)
dist.all_reduce(numbers)
assert float(numbers.sum()) == 12
dist.destroy_process_group()
"""
    run = ("-m", "tenure", "run", "--quiet", "-o", "t", "-m", "torch.distributed.run", "--nproc-per-node", "2")
    call(tmp_path, text, by=run, OMP_NUM_THREADS="1")
    ranks = [process for _, process in told(tmp_path / "t") if process.rank is not None]
    assert sorted((process.rank, process.world_size, process.complete) for process in ranks) == [
        (0, 2, True), (1, 2, True)
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ by the environment


MARKING = "import os, tenure, torch; tenure.mark(os.environ['WORD'])"


def test_the_environment_alone_records(folder):
    (folder / "below").mkdir()
    text = "import os; os.chdir('below')\n" + MARKING + "\nprint(os.environ['TENURE_TRACE'])"
    done = call(folder, text, by=(), TENURE_TRACE="deep/t", WORD="one")
    assert done.stdout == f"{folder / 'deep/t'}\n"
    assert marks(folder / "deep/t") == ["one"]


def test_a_second_run_gets_a_number_and_the_first_stays(folder):
    said = [call(folder, MARKING, by=(), TENURE_TRACE="t", WORD=word).stderr for word in ("one", "two", "three")]
    assert [marks(folder / name) for name in ("t", "t-2", "t-3")] == [["one"], ["two"], ["three"]]
    assert ["older trace" in text for text in said] == [False, True, True]
    assert "tenure: t contains an older trace; this one is in t-3\n" in said[2]


def test_who_records_nothing_replaces_nothing(folder):
    call(folder, MARKING, by=(), TENURE_TRACE="t", WORD="one")
    call(folder, "import tenure", by=(), TENURE_TRACE="t")
    assert marks(folder / "t") == ["one"]


def test_the_first_that_records_may_be_a_child(folder):
    text = f"""
import os, subprocess, sys
children = [
    subprocess.Popen([sys.executable, "-c", {MARKING!r}], env=os.environ | {{"WORD": word}}) for word in ("two", "three")
]
assert [child.wait() for child in children] == [0, 0]
"""
    call(folder, MARKING, by=(), TENURE_TRACE="t", WORD="one")
    call(folder, text, by=(), TENURE_TRACE="t", PYTHONPATH=str(folder))
    assert marks(folder / "t") == ["one"]
    assert marks(folder / "t-2") == ["three", "two"]


def test_what_a_launcher_started_shares_the_folder(folder):
    for word in ("0", "1"):
        call(folder, MARKING, by=(), TENURE_TRACE="t", WORD=word, OMPI_COMM_WORLD_RANK=word)
    assert marks(folder / "t") == ["0", "1"]


def test_what_a_launcher_starts_later_is_another_run(folder):
    for word in ("0", "1"):
        job = {"OMPI_COMM_WORLD_RANK": word, "PMIX_NAMESPACE": f"job {word}"}
        call(folder, MARKING, by=(), TENURE_TRACE="t", WORD=word, **job)
    assert [marks(folder / name) for name in ("t", "t-2")] == [["0"], ["1"]]


def test_a_folder_in_use_is_shared(folder):
    text = f"""
import os, subprocess, sys
{MARKING}
del os.environ["TENURE_RUN"]  # as if another had started it
subprocess.run([sys.executable, "-c", {MARKING!r}], check=True, env=os.environ | {{"WORD": "two"}})
"""
    call(folder, text, by=(), TENURE_TRACE="t", WORD="one", PYTHONPATH=str(folder))
    assert marks(folder / "t") == ["one", "two"]


@pytest.mark.parametrize("place", ["/proc/nowhere", "s.py", "s.py/below", "precious"])
def test_a_folder_that_cannot_be_harms_nobody(folder, place):
    (folder / "precious").mkdir()
    (folder / "precious" / "thesis.txt").write_text("text")
    done = call(folder, "import torch; print('done')", by=(), TENURE_TRACE=place)
    assert done.stdout == "done\n"
    assert done.stderr.startswith("tenure: no trace: ")
    assert done.stderr.count("\n") == 1
    assert (folder / "precious" / "thesis.txt").read_text() == "text"


def test_without_the_variable_nothing_is_imported():
    code = "import sys; print([name for name in sys.modules if name.startswith('tenure')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=CLEAN, check=True)
    assert done.stdout == "[]\n"
    import tenure

    (line,) = (Path(tenure.__file__).parents[1] / "tenure-autostart.pth").read_text().splitlines()
    assert line.startswith('import os, sys; os.environ.get("TENURE_TRACE") and ')
