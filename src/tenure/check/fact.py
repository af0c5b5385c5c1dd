"""A fact: something that was seen in a file, with its places, and edits of the source there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from tenure.check.abstract_values import Module, Spot
from tenure.findings import Edit, Place, Role

_Kind = TypeVar("_Kind", bound="Fact")


@dataclass(slots=True, eq=False)
class Fact:
    """Something that was seen. The fields of a kind that are named after a role are its places, in their order."""

    likely: bool = field(default=False, init=False)  # seen where no caller is known
    called_from: Spot | None = field(
        default=None, init=False
    )  # the call in the checked file that leads to another file

    def spots(self) -> list[tuple[Role, Spot]]:
        """The places and their roles: the main one first, the call that leads to it before."""
        named = ((one.name, getattr(self, one.name)) for one in fields(self) if one.name in _ROLES)
        found: list[tuple[Any, Spot]] = [(role, spot) for role, spot in named if isinstance(spot, Spot)]
        return [(found[0][0], self.called_from), *found] if self.called_from is not None else found

    def spot(self, role: Role) -> Spot | None:
        """The first place with this role."""
        return next((spot for one, spot in self.spots() if one == role), None)

    def places(self) -> list[Place]:
        """The places of the finding, the one it stands at first."""
        return [place(role, spot) for role, spot in self.spots()]

    def line(self, role: Role) -> int | None:
        """The line of a place."""
        spot = self.spot(role)
        return spot.line if spot is not None else None

    def node(self, role: Role) -> Any:
        """The syntax of a place."""
        spot = self.spot(role)
        return spot.node if spot is not None else None

    def after(self, role: Role, node: ast.AST, text: str) -> tuple[Edit, ...]:
        """Write `text` after `node`, in the file of the place."""
        spot = self.spot(role)
        return (edit_at(spot.module, node, node, text, before=False),) if spot is not None else ()

    def replace(self, role: Role, node: ast.AST, text: str) -> tuple[Edit, ...]:
        """Write `text` in the place of `node`."""
        spot = self.spot(role)
        return (edit_over(spot.module, node, text),) if spot is not None else ()

    def before(self, role: Role, node: ast.AST, text: str) -> tuple[Edit, ...]:
        """Write `text` before `node`, in the file of the place."""
        spot = self.spot(role)
        return (edit_at(spot.module, node, node, text, before=True),) if spot is not None else ()

    def text(self, role: Role, node: ast.AST) -> str:
        """The source of a node in the file of the place."""
        spot = self.spot(role)
        return spot.module.slice(node) if spot is not None else ""


_ROLES = frozenset(["birth", "use", "end", "escape", "holder"])


class Found:
    """All facts of a file, by kind."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._facts: dict[type[Fact], list[Fact]] = {}
        for fact in facts:
            self._facts.setdefault(type(fact), []).append(fact)

    def of(self, kind: type[_Kind]) -> Iterator[_Kind]:
        """The facts of one kind."""
        yield from self._facts.get(kind, ())  # type: ignore[misc]


def place(role: Role, spot: Spot) -> Place:
    """A place of a finding."""
    node, module = spot.node, spot.module
    line = int(getattr(node, "lineno", 1))
    column = module.column(line, int(getattr(node, "col_offset", 0)))
    return Place(role, module.file, line, spot.function, module.line(line).strip(), column)


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
