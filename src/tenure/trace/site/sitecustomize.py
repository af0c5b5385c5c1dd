"""Begins a trace where tenure is on PYTHONPATH and not installed, so that its .pth file is not read.

`tenure run` puts this folder on the path. It goes from there, and whatever `sitecustomize` it hid is run.
"""

import os
import sys

_here = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is not worth its time here
sys.path[:] = [entry for entry in sys.path if entry != _here]
if os.environ.get("TENURE_TRACE"):
    try:
        from tenure.trace import autostart

        autostart.begin()
    except Exception as _error:  # noqa: BLE001 - a file cannot be read: the program goes on, and lists its folders again
        for _finder in list(sys.path_importer_cache.values()):
            getattr(_finder, "invalidate_caches", lambda: None)()
        try:
            if sys.stderr and '"quiet": true' not in os.environ.get("TENURE_RUN", ""):
                os.write(2, f"tenure: no trace: {_error}\n".encode(errors="backslashreplace"))
        except OSError:
            pass
del sys.modules["sitecustomize"]
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
