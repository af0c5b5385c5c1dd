"""List, check or clean up a store in files.

  tenure store ls PATH       list names, shapes, sizes, versions, source lines
  tenure store check PATH    read every byte, and print damaged files
  tenure store gc PATH       remove files that no name needs

All three are safe while other processes use the store. The exit code of `check` is 1 if there are damaged files.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tenure.errors import StoreError
from tenure.model import size

if TYPE_CHECKING:
    from tenure.sharing.store.file.backend import FileStore


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("what", metavar="ls|check|gc", choices=tuple(_DOING), help="list, check or clean up the store")
    parser.add_argument("path", metavar="PATH", help="use the store in this folder (PATH or file:PATH)")
    parser.add_argument("--dry-run", action="store_true", help="print what gc would remove, and remove nothing")
    parser.add_argument(
        "--format", choices=("full", "json"), default="full", help="print in this format (default: full)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    try:
        from tenure.sharing.store.file import backend, layout
    except ImportError as error:
        if error.name != "fcntl":
            raise
        raise StoreError("stores in files need file locks, which exist on Linux and macOS only") from None
    url = options.path if options.path.startswith("file:") else f"file:{options.path}"
    store = backend.FileStore(layout.folder(url.removeprefix("file:"), url), create=False)
    try:
        told, lines, code = _DOING[options.what](store, options)
    finally:
        store.close()
    sys.stdout.write(
        json.dumps(told, indent=1) + "\n" if options.format == "json" else "".join(f"{x}\n" for x in lines)
    )
    return code


def _ls(store: FileStore, options: argparse.Namespace) -> tuple[Any, list[str], int]:
    from tenure.sharing.store.file import index

    rows = store.index.look(index.rows)
    leased = {row.name: len(store.leases(row.name)) for row in rows}
    told = [{**asdict(row.entry), "file": str(store.tensors / row.file), "leases": leased[row.name]} for row in rows]
    cells = [
        (
            row.name,
            f"{row.framework} {row.dtype}[{', '.join(map(str, row.shape))}]",
            size(row.nbytes),
            f"version {row.version}" + (f", leased {leased[row.name]} times" if leased[row.name] else ""),
            f"put at {row.put.site.short}" if row.put.site else "",
        )
        for row in rows
    ]
    widths = [max((len(one[column]) for one in cells), default=0) for column in range(5)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(one, widths, strict=True)).rstrip() for one in cells]
    total = f"{_count(len(rows), 'tensor')}, {size(sum(row.nbytes for row in rows))}"
    return told, [*lines, total], 0


def _check(store: FileStore, options: argparse.Namespace) -> tuple[Any, list[str], int]:
    from tenure.sharing.store.file import upkeep

    seen: list[int] = []
    damages = list(upkeep.check(store, lambda row: seen.append(row.nbytes)))
    told = [{**asdict(damage), "file": str(damage.file)} for damage in damages]
    lines = [f"damaged: {damage.name or 'the index'}: {damage.text}\n  file: {damage.file}" for damage in damages]
    read = f"{_count(len(seen), 'tensor')}, {size(sum(seen))} read"
    return told, [*lines, f"{read}: {len(damages) or 'none'} damaged"], 1 if damages else 0


def _gc(store: FileStore, options: argparse.Namespace) -> tuple[Any, list[str], int]:
    from tenure.sharing.store.file import upkeep

    left = upkeep.gc(store, dry=options.dry_run)
    told = [{**asdict(one), "file": str(one.file)} for one in left]
    verb = "would remove" if options.dry_run else "removed"
    lines = [f"{verb} {one.file.relative_to(store.folder)}  {size(one.nbytes)}  {one.why}" for one in left]
    return told, [*lines, f"{verb} {_count(len(left), 'file')}, {size(sum(one.nbytes for one in left))}"], 0


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


_DOING = {"ls": _ls, "check": _check, "gc": _gc}
