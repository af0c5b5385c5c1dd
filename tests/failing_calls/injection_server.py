"""Runs programs in forked children, the framework being imported already: an import is most of what a run costs.

`python injection_server.py FRAMEWORK...`, with the shim preloaded. A request is a line of JSON on standard input, and
so is the answer on standard output. A child is recorded as any Python is: by tenure's .pth file, read by `site`.
"""

import builtins
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import signal
import site
import sys
import time
from pathlib import Path

_STRAYS = 2.0  # seconds for what the program started to end after it


def _wait(child, seconds):
    """The exit code; None for a hang, of which every process of the group then shows its stack."""
    end = time.monotonic() + seconds
    pause = 0.001
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    os.killpg(child, signal.SIGUSR2)
    time.sleep(0.3)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _strays(group):
    """Whether something of the group runs on, which is then killed."""
    end = time.monotonic() + _STRAYS
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        if time.monotonic() > end:
            os.killpg(group, signal.SIGKILL)
            return True
        time.sleep(0.01)


def _serve():
    """In each child: the program, as code that is to be run."""
    shim = ctypes.CDLL(None).failing_calls_begin
    asked = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "w")
    for line in asked:
        request = json.loads(line)
        began = time.monotonic()
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            asked.close()
            answers.close()
            return _begin(request, shim)
        with contextlib.suppress(OSError):
            os.setpgid(child, child)
        code = _wait(child, request["limit"])
        done = {"code": code, "strays": code is not None and _strays(child), "seconds": time.monotonic() - began}
        print(json.dumps(done), file=answers, flush=True)
    os._exit(0)


def _begin(request, shim):
    for handle, name in enumerate(("/dev/null", request["out"], request["err"])):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, handle)
        os.close(opened)
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    if "TENURE_RUN" in os.environ:
        os.environ["TENURE_RUN"] = os.environ["TENURE_RUN"].replace('"PID"', str(os.getpid()))
    faulthandler.register(signal.SIGUSR2, file=os.dup(2))
    sys.argv = [request["program"]]
    shim(request["control"].encode())
    if request["pth"]:
        site.addpackage(str(Path(request["pth"]).parent), Path(request["pth"]).name, set())
    return compile(Path(request["program"]).read_bytes(), request["program"], "exec")


for _name in sys.argv[1:]:
    importlib.import_module(_name)
gc.collect()
gc.freeze()  # children need not go through half a million objects of the framework's, neither in a look nor at their end
_code = _serve()
exec(_code, {"__name__": "__main__", "__file__": sys.argv[0], "__builtins__": builtins})
