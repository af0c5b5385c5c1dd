"""Where in the user's code something happened: frames of frameworks, the standard library and tenure are skipped."""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import TYPE_CHECKING

from tenure.model import Site

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType

# Files of compilers: what is born below them is a constant of the compiled function, not a tensor of the user's.
_COMPILERS = ("torch/_dynamo/convert_frame.py", "torch/_inductor/compile_fx.py", "torch/_functorch/aot_autograd.py")
_LIBRARIES = (
    "torch", "tensorflow", "keras", "jax", "jaxlib", "numpy", "opt_einsum", "functorch", "torchgen",
    "_pytest", "pluggy", "xdist", "execnet", "IPython", "ipykernel", "traitlets", "tornado", "zmq",  # which run the user's code
)  # fmt: skip


def _folders() -> tuple[str, ...]:
    """Worked out without a look at the disk, which may fail: a scope is entered, and a look for leaks made, all the same."""
    here, library = os.path.dirname(__file__), os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib costs milliseconds
    platform = f"{sys.base_exec_prefix}/{sys.platlibdir}/python{sys.version_info.major}.{sys.version_info.minor}"
    found = {f"{here}/", "<frozen ", "<__array_function__ ", "<eval_with_key>"}
    # The standard library's own modules, but not site-packages, which lies inside its folder.
    for folder in {library, platform}:
        for name in ("test", *sys.stdlib_module_names):
            found.update((f"{folder}/{name}.py", f"{folder}/{name}/"))
    for entry in filter(None, sys.path):
        found.update(f"{entry}/{name}/" for name in _LIBRARIES)
    return tuple(sorted(found))


@functools.cache
def prefixes() -> tuple[str, ...]:
    """Beginnings of file names whose frames are not the user's."""
    return _folders()


@functools.cache
def compilers() -> tuple[str, ...]:
    """Files in which a compiler makes tensors of its own."""
    return tuple(f"{entry}/{file}" for entry in sys.path for file in _COMPILERS if entry)


_LINE = re.compile(r"(.*):(\d+) in (.*)")


def read(text: str) -> tuple[Site, ...]:
    """The sites of a stack that `tenure.stacks.text` told, the innermost first."""
    found = (_LINE.fullmatch(line) for line in text.split("\n"))
    return tuple(Site(match[1], int(match[2]), match[3]) for match in found if match is not None)


_known: dict[str, bool] = {}


def is_user(file: str) -> bool:
    """Whether frames of this file are the user's."""
    known = _known.get(file)
    if known is None:
        known = _known[file] = not file.startswith(prefixes())
    return known


def is_installed(file: str) -> bool:
    """Return whether this file is a package's that was installed: its user cannot edit it."""
    return "/site-packages/" in file or "/dist-packages/" in file


def shown(stack: Sequence[Site]) -> list[Site]:
    """Return the innermost site of a stack; inside an installed package, first the user's own line that led there."""
    own = [site for site in stack if not is_installed(site.file)][:1]
    return [*own, *stack[:1]] if own != list(stack[:1]) else own


def mark(frame: FrameType | None = None) -> tuple[CodeType | None, int]:
    """The innermost user frame, of this thread or from `frame` on, as `at` takes it: cheap to keep, a line only when asked."""
    frame = _innermost(frame or sys._getframe(1))
    return (None, -1) if frame is None else (frame.f_code, frame.f_lasti)


def here() -> Site | None:
    """The innermost user frame of this thread."""
    frame = _innermost(sys._getframe(1))
    if frame is None:
        return None
    code = frame.f_code
    return Site(code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_qualname)


def _innermost(frame: FrameType | None) -> FrameType | None:
    while frame is not None:
        file = frame.f_code.co_filename
        if _known.get(file) or (file not in _known and is_user(file)):
            break
        frame = frame.f_back
    return frame


def at(code: CodeType | None, lasti: int) -> Site | None:
    """The site of an instruction: what a birth record keeps, turned into a line only when asked."""
    if code is None:
        return None
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end and number is not None:
            line = number
    return Site(code.co_filename, line, code.co_qualname)
