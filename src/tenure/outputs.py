"""Files that the user names for what tenure writes: what is there already is not destroyed.

A device stays a device, a link leads where it led, and a file that holds something else stays as it is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tenure import descriptors
from tenure.errors import TenureError

_LARGEST = 1 << 28
IsOurs = Callable[[bytes], bool]


def check(path: Path, is_ours: IsOurs, *, force: bool = False, spare: tuple[Path, ...] = (), hint: str = "") -> None:
    """Reject a file that cannot be written, or holds what tenure did not write. Files to `spare` are always rejected.

    With `force` any other file may be overwritten; `hint` says how the user asks for that.
    """
    try:
        why = _objection(path, is_ours, force=force, spare=spare)
    except OSError as error:
        why = error.strerror or str(error)
    if not why:
        return
    other = ""
    if path.exists():
        whole = path.absolute()
        names = (path.parent / f"{whole.stem}-{number}{whole.suffix}" for number in count(2))
        other = f"; use another file, such as {next(name for name in names if not os.path.lexists(name))}"
    raise TenureError(f"cannot write to {path}: {why}{other}{hint if _is_full(path) else ''}")


def empty(path: Path) -> None:
    """Empty a file that `check` did not reject, if there is one: until it is written, nothing old is to be read."""
    if path.is_file() and path.stat().st_size and not _is_standard(path.stat()):
        os.truncate(path, 0)


def write(path: Path, data: bytes, is_ours: IsOurs) -> None:
    """Write this to the file, if it still may be; a file that is our own output's is continued.

    Raises OSError, or TenureError where the file holds something else by now.
    """
    try:  # a pipe that nothing reads would block
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise TenureError(f"cannot write to {path}: no process reads from it") from error
        raise
    os.set_blocking(handle, True)
    try:
        about = os.fstat(handle)
        standard = _is_standard(about)
        if standard:
            os.close(handle)
            handle = os.dup(standard)  # its place in the file is that of the program's output
        elif stat.S_ISREG(about.st_mode) and about.st_size:
            check(path, is_ours)
            os.ftruncate(handle, 0)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def is_stream(path: Path) -> bool:
    """Whether it takes bytes and is not to be replaced: a device, a pipe, our own output."""
    return path.exists() and (not path.is_file() or bool(_is_standard(path.stat())))


def place(scratch: Path, target: Path) -> None:
    """Put a finished file in the place of another one: by its name, or, into a device or a pipe, by its bytes."""
    if is_stream(target):
        with scratch.open("rb") as file:
            while data := file.read(1 << 20):
                write(target, data, lambda held: True)
        scratch.unlink()
        return
    real = Path(os.path.realpath(target))  # a link stays
    if real.exists():
        scratch.chmod(stat.S_IMODE(real.stat().st_mode))
    scratch.replace(real)


def _objection(path: Path, is_ours: IsOurs, *, force: bool, spare: tuple[Path, ...]) -> str:
    if not path.exists():  # or it leads nowhere, yet
        folder = Path(os.path.realpath(path)).parent
        if not folder.is_dir():
            return f"there is no folder {folder}"
        return "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder} is not writable"
    about = path.stat()
    if stat.S_ISDIR(about.st_mode) or stat.S_ISSOCK(about.st_mode):
        return "it is a folder" if stat.S_ISDIR(about.st_mode) else "it is a socket"
    if any(one.exists() and one.samefile(path) for one in spare):
        return "it is an input of this command"
    if not os.access(path, os.W_OK):
        return "it is not writable"
    if not _is_full(path) or force or _is_standard(about):
        return ""
    if about.st_size > _LARGEST or not is_ours(path.read_bytes()):
        return "it contains something else"
    return ""


def _is_full(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _is_standard(about: os.stat_result) -> int:
    """The number of our standard output or error, if that is this very file; otherwise 0."""
    for handle in (1, 2):
        if descriptors.identity(handle) == descriptors.of(about):
            return handle
    return 0
