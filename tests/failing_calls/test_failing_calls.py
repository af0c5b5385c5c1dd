"""A program goes on as if it were not recorded, whichever call of tenure's to the operating system fails.

`make faults` makes every call fail; here are some of each program. What the shim counts as tenure's is in injecting.py.
"""

import os
import subprocess
import sys
import textwrap

import injecting
import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the shim knows Linux only")


def differences(result):
    return "\n\n".join(f"{fault}\n{outcome}" for fault, outcome in result.different)


# Of a program without a framework each site, of the others the start, the writes and the end.
@pytest.mark.parametrize(
    ("program", "share", "only"),
    [
        ("bare", (1, 1), ""),
        ("torch_loop", (1, 12), "opendir|dlopen|thread|^(write|mkdir).*writer"),
        ("forks", (1, 8), "recorder.*_forked|thread|^write"),
    ],
)
def test_a_failing_call_changes_nothing(program, share, only, tmp_path):
    if program != "bare" and "torch" not in os.environ.get("TENURE_TEST_FRAMEWORKS", "torch"):
        pytest.skip("torch is not among TENURE_TEST_FRAMEWORKS")
    result = injecting.inject(injecting.PROGRAMS[program], tmp_path, set(), share, only=only)
    assert result.faults > 2
    assert result.missed < result.faults / 2
    assert not result.different, differences(result)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("program", injecting.PROGRAMS)
def test_no_failing_call_changes_anything(program, tmp_path):
    result = injecting.inject(injecting.PROGRAMS[program], tmp_path, set())
    assert not result.different, differences(result)


def test_the_tests_above_can_fail(tmp_path):
    """A call that is the program's own and fails shows in its output."""
    injector = injecting.Injector(injecting.PROGRAMS["bare"], tmp_path, jobs=1)
    try:
        plain = injector.run(plain=True)
        injector.source = tmp_path / "opens.py"
        injector.source.write_text("import json, os\nprint(json.dumps({'sum': 45, 'files': ['more']}))\n")
        assert injector.run().compared() != plain.compared()
    finally:
        injector.close()


def test_a_call_between_two_instructions_of_a_compilation_does_not_wait_for_it(tmp_path):
    program = """
        import signal, sys
        from tenure import native, stacks

        calls = []

        def between(*_):
            calls.append(native.load("tenure_references", "references.c"))
            stacks.after(0, None)

        signal.signal(signal.SIGALRM, between)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        module = native.load("tenure_references", "references.c")
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(len(calls) > 0, (module is None) == bool(native.reason("tenure_references")))
    """
    environment = os.environ | {"TENURE_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("True True\n", 0), done.stderr
