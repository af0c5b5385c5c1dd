"""Compiling a native part into the cache, where the next run finds it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from types import ModuleType

from tenure import cache

_SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
_SCRATCH = "building-"
_OVER = 3600  # seconds, after which a compilation has ended, one way or another
_AGAIN = 24 * 3600  # seconds, after which one that failed is tried again
_SOURCES = (Path(__file__).parent / "_native", Path(__file__).parents[2] / "native")


def build(
    name: str, source: str, includes: list[str], flags: list[str], key: str, *, compiled: bool
) -> tuple[ModuleType | None, str]:
    """The extension module, or None and the reason why not; with `compiled`, only one that lies in the cache."""
    try:
        return _import(name, _compile(name, source, includes, flags, key, compiled=compiled)), ""
    except (OSError, ImportError, subprocess.SubprocessError) as error:
        return None, _say(error)


def _compile(name: str, source: str, includes: list[str], flags: list[str], key: str, *, compiled: bool) -> Path:
    file = _source(source)
    place = hashlib.sha256(repr(flags).encode()).hexdigest()[:8]  # they say where libraries are
    target = cache.folder("native") / f"{name}-{_stamp(file, key)}-{place}{_SUFFIX}"
    if os.path.lexists(target):
        if not cache.is_ours(target):
            raise PermissionError(f"{target} belongs to another user, or can be written by one; remove it")
        return target
    if compiled:
        raise FileNotFoundError("it is not compiled yet")
    wanted = ("CXX", "c++", "g++", "clang++") if file.suffix == ".cpp" else ("CC", "cc", "gcc", "clang")
    compiler = os.environ.get(wanted[0]) or next(filter(None, map(shutil.which, wanted[1:])), None)
    if compiler is None:
        raise FileNotFoundError(f"no {'C++' if file.suffix == '.cpp' else 'C'} compiler ({', '.join(wanted[1:])})")
    failed = target.with_suffix(".failed")
    before = _failure(failed, compiler)
    if before:
        raise ImportError(before)
    _sweep(target.parent)
    # Libraries among the flags come behind the source: a linker that drops what it does not yet need would drop them.
    paths = [f"-I{path}" for path in (sysconfig.get_path("include"), *includes)]
    shared = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    # Written beside the target and renamed: another process may be building the same file.
    scratch = tempfile.mkdtemp(prefix=_SCRATCH, dir=target.parent)
    try:
        made = Path(scratch, target.name)
        command = [*compiler.split(), "-O2", "-shared", "-fPIC", *shared, *paths, str(file), *flags, "-o", str(made)]
        subprocess.run(
            command, check=True, capture_output=True, text=True, errors="replace", timeout=300, stdin=subprocess.DEVNULL
        )
        made.chmod(0o600)  # whatever the umask is
        made.replace(target)
    except subprocess.CalledProcessError as error:
        with contextlib.suppress(OSError):  # each worker process would wait for the same again
            failed.touch(0o600)
            failed.write_text(f"{compiler}\n{_say(error)}\n")
        raise
    finally:  # not by TemporaryDirectory, which recurses for ever where a folder may not be removed
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _failure(failed: Path, compiler: str) -> str:
    """Why this compiler failed within the last day; empty if it did not."""
    if not (os.path.lexists(failed) and cache.is_ours(failed)) or time.time() - failed.stat().st_mtime > _AGAIN:
        return ""
    by, _, why = failed.read_text(errors="replace").partition("\n")
    return f"{why.strip()} (remove {failed} to try again now)" if by == compiler else ""


def _sweep(folder: Path) -> None:
    """Remove what compilations left that were killed."""
    for scratch in folder.glob(f"{_SCRATCH}*"):
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            if time.time() - scratch.lstat().st_mtime > _OVER:
                shutil.rmtree(scratch, ignore_errors=True)


def is_built(name: str, source: str, key: str) -> bool:
    """Whether the cache has this part, compiled from today's source for this Python."""
    try:
        found = cache.folder("native").glob(f"{name}-{_stamp(_source(source), key)}-*{_SUFFIX}")
        return any(cache.is_ours(file) for file in found)
    except OSError:
        return False


def _source(name: str) -> Path:
    file = next((folder / name for folder in _SOURCES if (folder / name).exists()), None)
    if file is None:
        raise FileNotFoundError(f"the source {name} is not installed")
    return file


def _stamp(file: Path, key: str) -> str:
    recipe = repr((sys.version, sys.platform, key, Path(__file__).read_text()))
    text = b"".join(part.read_bytes() for part in (file, *sorted(file.parent.glob("*.h"))))
    return hashlib.sha256(text + recipe.encode()).hexdigest()[:16]


def _import(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in str(error.stderr).splitlines() if "error" in line] or ["no message"]
        return f"the compiler failed: {lines[0].strip()}"
    return str(error)
