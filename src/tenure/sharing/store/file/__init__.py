"""Stores in a folder: shared between processes, and kept. `file:PATH`, or `file:PATH?durable` to outlast power cuts too."""

from __future__ import annotations

from tenure.errors import StoreError
from tenure.sharing.store.base import Backend

_DURABLE = "?durable"


def connect(rest: str, url: str) -> Backend:
    """Return the store in a folder; create it if nothing exists there."""
    try:
        from tenure.sharing.store.file import backend, layout
    except ImportError as error:
        if error.name != "fcntl":
            raise
        raise StoreError(f"{url}: stores in files need the locks of Linux or macOS") from None
    durable = rest.endswith(_DURABLE)
    folder = layout.folder(rest.removesuffix(_DURABLE), url)
    return backend.FileStore(folder, durable=durable)
