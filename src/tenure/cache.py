"""The user's cache: what is kept between runs, in folders that only this user can write.

Code is loaded from it. So no folder on the way there, and no link, may be another user's to change: neither the home in
a shared folder, nor what a session with an open umask has left.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def folder(part: str) -> Path:
    """The folder of this part of the cache, made if need be. Raises OSError where there can be none."""
    return _found(part)[0]


def unusable(part: str) -> list[str]:
    """The folders that would have been used before that one, and what is wrong with each."""
    try:
        return _found(part)[1]
    except OSError as error:
        return [str(error)]


def is_ours(file: Path) -> bool:
    """Whether this is a plain file of this user, which nobody else can write."""
    about = file.lstat()
    return stat.S_ISREG(about.st_mode) and about.st_uid == _me() and not about.st_mode & _OTHERS


def _found(part: str) -> tuple[Path, list[str]]:
    wrong: list[str] = []
    for base in _bases():
        place = base / part
        try:
            why = _made(place)
        except OSError as error:
            why = f"{error.strerror or error}: {error.filename or place}"
        if not why:
            return place, wrong
        wrong.append(f"{place} is not used: {why}")
    raise OSError("there is no cache: " + "; ".join(wrong))


def _bases() -> Iterator[Path]:
    """Where the cache may be, the best first."""
    named = os.environ.get("TENURE_CACHE_DIR")
    shared = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none
    if named:
        yield Path(os.path.expanduser(named)).absolute() / "tenure"  # noqa: PTH111 - Path.expanduser() may raise
    elif os.path.isabs(shared):  # noqa: PTH117 - the standard says to pass over any other
        yield Path(shared) / "tenure"
    elif home.is_absolute() and home.is_dir():  # a home that is not there is not ours to make
        yield home / ".cache" / "tenure"
    yield Path(os.environ.get("TMPDIR") or "/tmp").absolute() / f"tenure-{_me()}"  # noqa: S108 - checked as the others


def _made(place: Path) -> str:
    """Make the folder, unless that is not safe: then why."""
    missing = []
    there = place
    while not os.path.lexists(there):
        missing.append(there)
        if there == there.parent:  # what cannot be looked at is taken for missing, up to the root
            return f"no folder on the path to {place} can be read"
        there = there.parent
    for own in (place.parent, place):  # an open umask may have made it; what others put there is not loaded
        if own not in missing and not _objection(own.parent):
            _close(own)
    why = _objection(there)
    if why:
        return why
    for one in reversed(missing):
        one.mkdir(0o700, exist_ok=True)
    about = place.stat()
    if not stat.S_ISDIR(about.st_mode):
        return f"{place} is not a folder"
    if about.st_uid != _me():
        return f"{place} belongs to user {about.st_uid}"
    return _objection(place) or ("" if os.access(place, os.W_OK | os.X_OK) else f"{place} is not writable")


def _close(own: Path) -> None:
    about = own.lstat()
    if about.st_uid == _me() and stat.S_ISDIR(about.st_mode) and about.st_mode & _OTHERS:
        own.chmod(0o700)


def _objection(place: Path) -> str:
    """Who else could put something of theirs in the place of this folder."""
    trusted = {0, _me(), Path("/").stat().st_uid}  # the last one is root, also where a container calls it nobody
    for step in _steps(place):
        about = step.lstat()
        if about.st_uid not in trusted:
            return f"{step} belongs to user {about.st_uid}"
        if stat.S_ISLNK(about.st_mode) or not about.st_mode & _OTHERS or about.st_mode & stat.S_ISVTX:
            continue
        # A group of the same number as the user is the user's own, by the usual scheme.
        if about.st_mode & stat.S_IWOTH or about.st_gid != _me():
            return f"{step} can be written by other users"
    return ""


def _steps(place: Path) -> Iterator[Path]:
    """Each folder and each link on the way to this place."""
    at = Path("/")
    rest = list(place.absolute().parts[1:])
    yield at
    hops = 0
    while rest:
        name = rest.pop(0)
        if name == "..":
            at = at.parent
            continue
        step = at / name
        yield step
        if not step.is_symlink():
            at = step
            continue
        hops += 1
        if hops > 40:
            raise OSError(f"too many links on the path to {place}")
        target = step.readlink()
        if target.is_absolute():
            at = Path("/")
        rest = [part for part in target.parts if part != "/"] + rest


def _me() -> int:
    return os.geteuid()
