"""What was seen in a file, as rules look at it: facts by kind, their places, and edits of their source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from tenure.check.machine import Fact
from tenure.check.modules import Module
from tenure.check.values import Spot
from tenure.findings import Edit, Place


class Seen:
    """One fact, for the rule that tells it."""

    def __init__(self, fact: Fact) -> None:
        self.kind = fact.kind
        self.data = fact.data
        self._spots = fact.spots

    def spot(self, role: str) -> Spot | None:
        """The first place with this role."""
        return next((spot for one, spot in self._spots if one == role), None)

    def places(self) -> list[Place]:
        """The places of the finding, the one it stands at first."""
        return [spot.module.place(role, spot) for role, spot in self._spots]  # type: ignore[arg-type]

    def line(self, role: str) -> int | None:
        """The line of a place."""
        spot = self.spot(role)
        return spot.line if spot is not None else None

    def source(self, role: str) -> str:
        """The source of a place."""
        spot = self.spot(role)
        return spot.module.slice(spot.node) if spot is not None else ""

    def node(self, role: str) -> Any:
        """The syntax of a place."""
        spot = self.spot(role)
        return spot.node if spot is not None else None

    def after(self, role: str, node: ast.AST, text: str) -> tuple[Edit, ...]:
        """Write `text` behind `node`, in the file of the place."""
        spot = self.spot(role)
        return (edit_at(spot.module, node, node, text, before=False),) if spot is not None else ()

    def replace(self, role: str, node: ast.AST, text: str) -> tuple[Edit, ...]:
        """Write `text` in the place of `node`."""
        spot = self.spot(role)
        return (edit_over(spot.module, node, text),) if spot is not None else ()

    def before(self, role: str, node: ast.AST, text: str) -> tuple[Edit, ...]:
        """Write `text` before `node`."""
        spot = self.spot(role)
        return (edit_at(spot.module, node, node, text, before=True),) if spot is not None else ()

    def text(self, role: str, node: ast.AST) -> str:
        """The source of a node in the file of the place."""
        spot = self.spot(role)
        return spot.module.slice(node) if spot is not None else ""


class Found:
    """All facts of a file."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._facts: dict[str, list[Seen]] = {}
        for fact in facts:
            self._facts.setdefault(fact.kind, []).append(Seen(fact))

    def of(self, *kinds: str) -> Iterator[Seen]:
        """The facts of some kinds."""
        for kind in kinds:
            yield from self._facts.get(kind, ())


def edit_at(module: Module, first: Any, last: Any, text: str, *, before: bool) -> Edit:
    """An insertion."""
    line, offset = (first.lineno, first.col_offset) if before else (last.end_lineno, last.end_col_offset)
    at = (line, module.column(line, offset))
    return Edit(module.file, at, at, text)


def edit_over(module: Module, node: Any, text: str) -> Edit:
    """A replacement."""
    start = (node.lineno, module.column(node.lineno, node.col_offset))
    end = (node.end_lineno, module.column(node.end_lineno, node.end_col_offset))
    return Edit(module.file, start, end, text)
