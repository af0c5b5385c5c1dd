"""Sessions when their process ends or forks: nothing hangs, and a child is told what it has not got."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

import tenure


def run(code, timeout=60):
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout, check=False
    )
    return done, time.monotonic() - begun


def test_an_open_session_does_not_hang_the_exit():
    done, seconds = run("""
        import time
        import tenure

        session = tenure.Session(name="open", queue=100)
        running = session.submit(time.sleep, 1000)
        while not running.running():
            time.sleep(0.01)
        waiting = [session.submit(print, n) for n in range(10)]
        lease = session.lease()
        print("end")
    """)
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert "session 'open'" in done.stderr
    assert "was open when Python exited: 10 runs that waited were cancelled, and a run was not finished" in done.stderr
    assert seconds < 40


def test_runs_that_end_soon_are_waited_for():
    done, _ = run("""
        import time
        import tenure

        session = tenure.Session()
        running = session.submit(lambda: (time.sleep(0.3), print("done", flush=True)))
        while not running.running():
            time.sleep(0.01)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_an_exit_from_within_and_an_uncaught_exception():
    done, _ = run("""
        import sys
        import tenure

        with tenure.Session(name="left") as session:
            futures = [session.submit(sum, [n]) for n in range(5)]
            session.run(sys.exit, 3)
    """)
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child():
    done, _ = run("""
        import os, time
        import tenure

        session = tenure.Session(name="parent", workers=2)
        running = session.submit(time.sleep, 1)
        while not running.running():
            time.sleep(0.01)
        waiting = [session.submit(time.sleep, 0) for _ in range(3)]
        lease = session.lease()

        def child():
            for ask in (running.result, waiting[-1].result, lambda: session.run(sum, [1]), lambda: lease.run(sum, [1])):
                try:
                    ask()
                except tenure.SessionClosed as error:
                    assert "is a fork of process" in str(error), error
                    assert "open a session in the child" in str(error), error
                else:
                    raise AssertionError(ask)
            assert session.close().ended
            lease.release()
            with tenure.Session(workers=2) as own:
                assert own.submit(sum, [1, 2]).result() == 3
            os._exit(7)

        pid = os.fork()
        if not pid:
            child()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

        def fork_inside():
            pid = os.fork()
            if not pid:
                return "child"
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
            return "parent"

        if session.run(fork_inside) == "child":
            os._exit(5)
        lease.release()
        report = session.close()
        assert (report.done, report.failed, report.cancelled) == (5, 0, 0), report
        print("good")
    """)
    assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr[-2000:]


def test_no_thread_is_left_behind():
    import threading

    before = set(threading.enumerate())
    with tenure.Session(workers=4) as session:
        [session.submit(sum, [n]) for n in range(100)]
    assert set(threading.enumerate()) <= before
