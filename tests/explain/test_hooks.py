"""Explanations below uncaught tracebacks: nothing else of the program changes."""

import subprocess
import sys
import textwrap

import pytest

# A fault that needs no framework to be imported, so that these processes are quick.
FAIL = 'raise RuntimeError("Attempted to use a closed Session.")'
SAID = "error[TN201]: "


def python(tmp_path, text, *words, script="prog.py"):
    path = tmp_path / script
    path.write_text(textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, *words, str(path)], capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path
    )


def test_plain_python(tmp_path):
    bare = python(tmp_path, f"def f():\n    {FAIL}\nf()\n")
    with_hook = python(tmp_path, f"def f():\n    {FAIL}\nimport tenure; tenure.install(); f()\n")
    assert with_hook.returncode == bare.returncode == 1
    traceback, _, explained = with_hook.stderr.partition("\nerror[")
    assert traceback.splitlines()[-1] == bare.stderr.splitlines()[-1]
    assert explained.startswith("TN201]: ")
    assert with_hook.stdout == bare.stdout


def test_an_exception_that_is_no_lifetime_fault_gets_nothing(tmp_path):
    done = python(tmp_path, "import tenure; tenure.install(); {}['x']\n")
    assert done.returncode == 1
    assert "error[" not in done.stderr
    assert done.stderr.endswith("KeyError: 'x'\n")


@pytest.mark.parametrize("ending", ["raise SystemExit(7)", "raise KeyboardInterrupt", "import os; os._exit(7)"])
def test_other_ends_stay_as_they_are(tmp_path, ending):
    bare = python(tmp_path, ending + "\n")
    done = python(tmp_path, f"import tenure; tenure.install(); {ending}\n")
    assert done.returncode == bare.returncode
    assert "error[" not in done.stderr


def test_threads_tasks_and_hooks_of_the_user(tmp_path):
    done = python(
        tmp_path,
        f"""
        import asyncio, gc, sys, threading
        seen = []
        sys.excepthook = lambda *told: (seen.append(told[0].__name__), sys.__excepthook__(*told))
        import tenure
        tenure.install(); tenure.install()

        def f():
            {FAIL}

        thread = threading.Thread(target=f); thread.start(); thread.join()

        async def task(): f()
        async def main():
            lost = asyncio.ensure_future(task())
            await asyncio.sleep(0.01)
            del lost
            gc.collect()
        asyncio.run(main())
        tenure.uninstall()
        thread = threading.Thread(target=f); thread.start(); thread.join()
        assert sys.excepthook.__name__ == "<lambda>"
        print(seen)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SAID) == 2
    assert done.stdout == "[]\n"


def test_exception_groups_and_chains(tmp_path):
    done = python(
        tmp_path,
        f"""
        import tenure
        tenure.install()
        def f():
            {FAIL}
        try:
            try:
                f()
            except RuntimeError as error:
                raise ValueError("labelling failed") from error
        except ValueError as error:
            raise ExceptionGroup("both", [KeyError("x"), error]) from None
        """,
    )
    assert done.stderr.count(SAID) == 1


def test_pytest_shows_a_section(tmp_path):
    (tmp_path / "conftest.py").write_text("import tenure\ntenure.install()\n")
    text = f"def test_one():\n    {FAIL}\ndef test_two():\n    assert 1 == 2\ndef test_three():\n    pass\n"
    done = python(tmp_path, text, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", script="test_x.py")
    assert done.returncode == 1
    assert "1 passed" in done.stdout
    assert done.stdout.count(SAID) == 1
    assert "- tenure -" in done.stdout


def test_ipython(tmp_path):
    text = f"""
        from IPython.core.interactiveshell import InteractiveShell
        import tenure
        tenure.install()
        shell = InteractiveShell.instance()
        shell.run_cell("def f():\\n    {FAIL.replace('"', chr(39))}\\n")
        shell.run_cell("f()")
        tenure.uninstall()
        shell.run_cell("f()")
        """
    done = python(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SAID) == 1, (done.stdout, done.stderr)
    assert done.stdout.count("Attempted to use a closed Session") >= 2


def run(tmp_path, text, *words):
    path = tmp_path / "prog.py"
    path.write_text(textwrap.dedent(text))
    command = [sys.executable, "-m", "tenure", "run", "-fo", str(tmp_path / "trace"), *words, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path)


TORCH = f"""
import sys, threading, torch
assert sys.excepthook is sys.__excepthook__
def f():
    {FAIL}
print(torch.ones(2).sum())
thread = threading.Thread(target=f); thread.start(); thread.join()
f()
"""


def test_tenure_run_explains_and_keeps_it(tmp_path):
    import json

    findings = tmp_path / "found.json"
    done = run(tmp_path, TORCH, "--findings", str(findings))
    assert done.returncode == 1
    assert done.stdout == "tensor(2.)\n"
    assert done.stderr.count(SAID) == 2
    last = done.stderr.rindex("RuntimeError: Attempted")
    assert done.stderr.index(SAID, last) > last
    assert {finding["code"] for finding in json.loads(findings.read_text())} == {"TN201"}
    findings.unlink()
    quiet = run(tmp_path, TORCH, "--findings", str(findings), "--quiet")
    assert quiet.returncode == 1
    assert "error[" not in quiet.stderr
    assert {finding["code"] for finding in json.loads(findings.read_text())} == {"TN201"}
