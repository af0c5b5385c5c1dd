"""The native parts: compiled when first needed, kept in a cache, and replaced by their Python twins where that fails.

Each source in `native/` is one extension module. It is compiled against the Python (and torch) that is running, so
what it knows of their inner structures comes from their own headers. `TENURE_NATIVE=0` forces the twins.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from types import ModuleType

_SOURCES = (Path(__file__).parent / "_native", Path(__file__).parents[2] / "native")
_loaded: dict[str, ModuleType | None] = {}
_reasons: dict[str, str] = {}
_lock = threading.Lock()


def load(
    name: str, source: str, *, includes: list[str] | None = None, flags: list[str] | None = None, key: str = ""
) -> ModuleType | None:
    """Import the extension `name` made from `native/source`, compiling it if this Python has not yet; None if not.

    `key` tells apart builds against different versions of what is included. `reason(name)` says why it is None.
    """
    if os.environ.get("TENURE_NATIVE") == "0":
        _reasons[name] = "switched off by TENURE_NATIVE=0"
        return None
    with _lock:
        if name not in _loaded:
            try:
                _loaded[name] = _import(name, _build(name, source, includes or [], flags or [], key))
            except (OSError, ImportError, subprocess.SubprocessError) as error:
                _loaded[name] = None
                _reasons[name] = _say(error)
        return _loaded[name]


def reason(name: str) -> str:
    """Why the extension is not in use; empty if it is, or was never asked for."""
    return _reasons.get(name, "")


def _build(name: str, source: str, includes: list[str], flags: list[str], key: str) -> Path:
    file = next((folder / source for folder in _SOURCES if (folder / source).exists()), None)
    if file is None:
        raise FileNotFoundError(f"the source {source} is not installed")
    stamp = hashlib.sha256(file.read_bytes() + repr((sys.version, sys.platform, key, flags)).encode()).hexdigest()[:16]
    target = _cache() / f"{name}-{stamp}{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    if target.exists():
        return target
    wanted = ("CXX", "c++", "g++", "clang++") if file.suffix == ".cpp" else ("CC", "cc", "gcc", "clang")
    compiler = os.environ.get(wanted[0]) or next(filter(None, map(shutil.which, wanted[1:])), None)
    if compiler is None:
        raise FileNotFoundError(f"no {'C++' if file.suffix == '.cpp' else 'C'} compiler ({', '.join(wanted[1:])})")
    paths = [f"-I{path}" for path in (sysconfig.get_path("include"), *includes)]
    shared = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    # Written beside the target and renamed: another process may be building the same file.
    handle, scratch = tempfile.mkstemp(suffix=".so", dir=target.parent)
    os.close(handle)
    try:
        command = [*compiler.split(), "-O2", "-shared", "-fPIC", *shared, *paths, *flags, str(file), "-o", scratch]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        os.replace(scratch, target)
    finally:
        Path(scratch).unlink(missing_ok=True)
    return target


def _cache() -> Path:
    named = os.environ.get("TENURE_CACHE")
    folder = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenure"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="tenure-"))
    return folder


def _import(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in str(error.stderr).splitlines() if "error" in line] or ["no message"]
        return f"the compiler failed: {lines[0].strip()}"
    return str(error)
