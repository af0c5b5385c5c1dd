"""The storage of variables: a store, or a TensorFlow graph, whose sessions have the values."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Protocol

from tenure.errors import StoreError
from tenure.frameworks.variables.base import Maker
from tenure.lifetime.scope import keep
from tenure.model import Site
from tenure.sharing import variables_book
from tenure.sharing.store import Store
from tenure.sharing.store.base import Missing
from tenure.sharing.variables_book import Book, Record


@dataclass(frozen=True)
class Found:
    """A variable that exists: where it was first made, and its framework."""

    variable: Any
    first: Site | None


class Shelf(Protocol):
    """A place for variables. Called with the name's lock held."""

    book: Book
    title: str

    def framework(self, name: str) -> str | None:
        """Return the framework of the variable of this name, if there is one."""

    def find(self, name: str, maker: Maker, *, trainable: bool) -> Found | None:
        """Return the variable of this name."""

    def add(self, name: str, variable: Any, first: Site | None) -> bool:
        """Put a new one there; False if another process was quicker."""

    def names(self) -> list[str]:
        """Return all names."""

    def first(self, name: str) -> Site | None:
        """Return where the variable of this name was first created."""

    def grave(self, name: str) -> str:
        """Return who deleted it, as text."""


class InStore:
    """Variables in a store. A memory store keeps the objects themselves; of others this process keeps those it made."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._backend = store._backend
        self._keeps = store.url.startswith("memory:")
        self.title = store.url
        self.book = _book(self._backend, store.url)
        # Where the store keeps no objects, they live as long as it is open, or as somebody holds them.
        self._kept = None if self._keeps else _kept.setdefault(self._backend, {})

    def framework(self, name: str) -> str | None:
        """As the store knows it."""
        entry = self._backend.entry(self._whole(name))
        return entry.framework if entry is not None else None

    def find(self, name: str, maker: Maker, *, trainable: bool) -> Found | None:
        """Return the variable of this name."""
        whole = self._whole(name)
        entry = self._backend.entry(whole)
        if entry is None:
            self._forget(whole)
            return None
        record, known = self.book.records.get(whole), self.book.find(whole)
        grave = self._backend.grave(whole)
        if record is not None and grave is not None and grave.version >= record.version:
            record = known = None  # another one came after it
        first = record.first if record is not None else entry.put.site
        # A variable of this process may be ahead of what lies in a file; an array cannot, it is replaced.
        if known is not None and not self._keeps and (maker.name != "jax" or _version(record) == entry.version):
            return Found(known, first)
        try:
            reading = self._backend.get(whole, None)
        except Missing:
            return None
        if known is not None and known is reading.value:
            return Found(known, first)
        with maker.outside():
            variable = keep(maker.variable(reading.value, name, trainable=trainable), forever=True)
        version = reading.version
        if self._keeps and variable is not reading.value:
            try:
                version = self._backend.put(whole, variable, entry.put, version)
            except StoreError:  # somebody set it meanwhile: look again
                return self.find(name, maker, trainable=trainable)
        self._note(whole, variable, first, version)
        return Found(variable, first)

    def add(self, name: str, variable: Any, first: Site | None) -> bool:
        """Add a variable if there is none."""
        whole = self._whole(name)
        try:
            version = self._store.put(name, variable, expect=0)
        except StoreError:
            if self._backend.entry(whole) is None:
                raise
            return False
        self._note(whole, variable, first, version)
        return True

    def names(self) -> list[str]:
        """Return the names below the store's prefix."""
        return list(self._store)

    def first(self, name: str) -> Site | None:
        """Return the place from the registry, or from the store."""
        whole = self._whole(name)
        record, entry = self.book.records.get(whole), self._backend.entry(whole)
        return record.first if record is not None else entry.put.site if entry is not None else None

    def grave(self, name: str) -> str:
        """As the store knows it."""
        grave = self._backend.grave(self._whole(name))
        return str(grave.by) if grave is not None else ""

    def _whole(self, name: str) -> str:
        return self._store._whole(name)

    def _note(self, whole: str, variable: Any, first: Site | None, version: int) -> None:
        self.book.note(whole, variable, first, version)
        if self._kept is not None:
            self._kept[whole] = variable

    def _forget(self, whole: str) -> None:
        self.book.forget(whole)
        if self._kept is not None:
            self._kept.pop(whole, None)


class InGraph:
    """Variables of a TensorFlow graph. The graph keeps them, and each session has values of its own."""

    title = "the graph"

    def __init__(self, graph: Any) -> None:
        self.book = _graphs.setdefault(graph, Book())

    def framework(self, name: str) -> str | None:
        """There is only one."""
        return "tensorflow"

    def find(self, name: str, maker: Maker, *, trainable: bool) -> Found | None:
        """As it was made."""
        known = self.book.find(name)
        return Found(known, self.book.records[name].first) if known is not None else None

    def add(self, name: str, variable: Any, first: Site | None) -> bool:
        """Add a variable if there is none."""
        self.book.note(name, variable, first)
        return True

    def names(self) -> list[str]:
        """Return the names in the order of creation."""
        return list(self.book.records)

    def first(self, name: str) -> Site | None:
        """Return the place from the registry."""
        record = self.book.records.get(name)
        return record.first if record is not None else None

    def grave(self, name: str) -> str:
        """Graphs lose nothing."""
        return ""


def _version(record: Record | None) -> int:
    return record.version if record is not None else 0


_graphs: weakref.WeakKeyDictionary[Any, Book] = weakref.WeakKeyDictionary()
_backends: weakref.WeakKeyDictionary[Any, Book] = weakref.WeakKeyDictionary()
_kept: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
_urls: weakref.WeakValueDictionary[str, Book] = weakref.WeakValueDictionary()


def _book(backend: Any, url: str) -> Book:
    """Return the registry of a store: one for all that opened it by the same name, while it has a variable."""
    with variables_book.opening:
        book = _backends.get(backend)
        if book is None:
            book = _backends[backend] = (_urls.get(url) if url != "memory:" else None) or Book()
            _urls[url] = book
        return book
