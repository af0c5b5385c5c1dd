"""Show the frameworks and native extensions that tenure uses.

For a native extension that is off, it shows the reason. No framework is imported unless you pass --build.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import tenure
from tenure import cache, compiler, native, stacks
from tenure.trace import digest

# The packages that bring a framework, and the versions that the tests run on.
_FRAMEWORKS = {
    "torch": (("torch",), ("2.11", "2.13")),
    "jax": (("jax",), ("0.4.38", "0.6.2", "0.7.0", "0.9.2", "0.10", "0.11", "0.12")),
    "tensorflow": (("tensorflow", "tensorflow-cpu", "tf-nightly"), ("2.21",)),
    "numpy": (("numpy",), ("2",)),
}
_PYTHONS = ("3.11", "3.12", "3.13")
# Native extensions that need only a compiler, and those for a framework: where they are loaded.
_PLAIN: dict[str, Callable[[], Any]] = {
    "tenure_births": lambda: native.load("tenure_births", "births.c"),
    "tenure_references": lambda: native.load("tenure_references", "references.c"),
    "tenure_stacks": stacks.core,
    "tenure_trace_scan": digest.engine,
}
_RECORDING = "tenure.frameworks.recording"
_FOR = {
    "tenure_torch_handles": ("torch", "tenure.frameworks.torch.sealed", "handles"),
    "tenure_torch_recorder": ("torch", f"{_RECORDING}.torch", "core"),
    "tenure_torch_quiet": ("torch", f"{_RECORDING}.torch", "quiet_core"),
    "tenure_torch_cuda_recorder": ("torch", f"{_RECORDING}.torch", "cuda_core"),
    "tenure_jax_recorder": ("jax", f"{_RECORDING}.arrays", "core"),
    "tenure_tensorflow_recorder": ("tensorflow", f"{_RECORDING}.arrays", "core"),
}


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--build",
        action="store_true",
        help="build the native extensions for the installed frameworks; this imports torch",
    )
    parser.add_argument(
        "--format", choices=("full", "json"), default="full", help="print in this format (default: full)"
    )


def run(options: argparse.Namespace) -> int:
    """Print what is here."""
    found = look(build=options.build)
    if options.format == "json":
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(_told(found)) + "\n")
    return 0


def look(*, build: bool = False) -> dict[str, Any]:
    """Return everything as plain data."""
    frameworks = {name: _framework(packages, tested) for name, (packages, tested) in _FRAMEWORKS.items()}
    parts = {name: _state(name, load) for name, load in _PLAIN.items()}
    for name, home in _FOR.items():
        version = frameworks[home[0]]["version"]
        if version is not None:
            parts[name] = _part_for(name, *home, version, build=build)
    return {
        "tenure": tenure.__version__,
        "python": {
            "version": platform.python_version(),
            "tested": _matches(platform.python_version(), _PYTHONS),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
        },
        "platform": platform.platform(),
        "frameworks": frameworks,
        "packages": {name: _version(name) for name in ("pyarrow", "duckdb")},
        "compilers": {"C": _compiler("CC", "cc", "gcc", "clang"), "C++": _compiler("CXX", "c++", "g++", "clang++")},
        "cache": _cache(),
        "cache_not_used": cache.unusable("native"),
        "native": parts,
    }


def _framework(packages: tuple[str, ...], tested: tuple[str, ...]) -> dict[str, Any]:
    version = next(filter(None, map(_version, packages)), None)
    return {
        "version": version,
        "tested": None if version is None else _matches(version, tested),
        "tested_versions": list(tested),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _matches(version: str, tested: tuple[str, ...]) -> bool:
    return any(version == one or version.startswith(f"{one}.") for one in tested)


def _compiler(variable: str, *names: str) -> str | None:
    named = os.environ.get(variable)
    return named or next(filter(None, map(shutil.which, names)), None)


def _cache() -> str | None:
    """Return where the native extensions are stored."""
    try:
        return str(cache.folder("native"))
    except OSError:
        return None


def _state(name: str, load: Callable[[], Any]) -> dict[str, str]:
    try:
        active = load() is not None
    except Exception as error:  # noqa: BLE001 - whatever is wrong is shown
        return {"state": "off", "why": f"{type(error).__name__}: {error}"}
    return (
        {"state": "active", "why": ""} if active else {"state": "off", "why": native.reason(name) or "unknown reason"}
    )


def _part_for(name: str, framework: str, module: str, function: str, version: str, *, build: bool) -> dict[str, str]:
    if os.environ.get("TENURE_NATIVE") == "0":
        return _state(name, lambda: native.load(name, ""))  # which reports that it is off, and imports no framework
    if build:
        return _state(name, lambda: _call(module, function, *([] if framework == "torch" else [framework])))
    source = f"{name.removeprefix('tenure_')}.cpp"
    if compiler.is_built(name, source, version if framework == "torch" else ""):
        return {"state": "built", "why": f"loaded when {framework} is used; `tenure doctor --build` loads it now"}
    return {"state": "not built", "why": "built when it is first needed; `tenure doctor --build` builds it now"}


def _call(module: str, function: str, *args: str) -> Any:
    return getattr(importlib.import_module(module), function)(*args)


def _told(found: dict[str, Any]) -> Iterator[str]:
    """Return the lines of the text form."""
    python = found["python"]
    yield _row("tenure", found["tenure"])
    yield _row("Python", f"{python['version']} ({python['implementation']}){_untested(python['tested'], _PYTHONS)}")
    yield _row("", python["executable"])
    yield _row("platform", found["platform"])
    yield ""
    for name, one in found["frameworks"].items():
        yield _row(name, (one["version"] or "not installed") + _untested(one["tested"], one["tested_versions"]))
    for name, version in found["packages"].items():
        yield _row(name, version or "not installed; traces need it")
    yield ""
    for language, path in found["compilers"].items():
        yield _row(f"{language} compiler", path or "none")
    yield _row("cache", found["cache"] or "none")
    for why in found["cache_not_used"]:
        yield _row("", why)
    yield "native extensions"
    for name, part in found["native"].items():
        yield f"  {name:<26} {part['state']}" + (f": {part['why']}" if part["why"] else "")


def _row(name: str, told: str) -> str:
    return f"{name:<13} {told}"


def _untested(tested: bool | None, versions: Any) -> str:
    if tested is not False:
        return ""
    return f" (not a tested version; tested: {', '.join(versions)})"
