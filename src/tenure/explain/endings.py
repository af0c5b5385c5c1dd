"""What ended a value: a donating call, an object that nobody kept, a tape's block, a dead weak reference."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from tenure.explain import values
from tenure.explain.flow import Flow
from tenure.explain.source import Source, dotted, last_line, targets_of
from tenure.findings import Place

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.model import TensorInfo

_DONATING = ("donate_argnums", "donate_argnames", "donate")
_TOLD = re.compile(r"deleted with shape=(?P<dtype>[a-z]+[a-z0-9_]*)\[(?P<shape>[\d,\s]*)\]")


def _fits(info: TensorInfo, told: re.Match[str]) -> bool:
    """Return whether a tensor has the shape that a message tells, and its element type where both are written out."""
    shape = tuple(int(part) for part in told["shape"].split(",") if part.strip())
    return info.shape == shape and (info.dtype == told["dtype"] or len(told["dtype"]) < 4)


class Endings:
    """What is known of the end of the value behind one exception."""

    def __init__(self, raised: Raised) -> None:
        self.raised = raised

    @cached_property
    def _ended(self) -> list[tuple[str, Place | None]]:
        """The ended arrays in the failing frames, by their names; those that the failing line names first."""
        here = self.raised.here
        text = _plain(self.raised.place("use", here).text) if here else ""
        told = _TOLD.search(self.raised.message)  # the message says which shape the deleted array has
        found = [
            (path, Place.at("birth", info.born) if info.born else None)
            for path, info in values.ended(self.raised)
            if told is None or _fits(info, told)
        ]
        return sorted(found, key=lambda one: _plain(one[0]) not in text)

    @property
    def what(self) -> str:
        """The array that was met, as far as it is known which: by its name, or by that of what holds it."""
        here = self.raised.here
        text = _plain(self.raised.place("use", here).text) if here else ""
        if not self._ended:
            return "an array"
        first = self._ended[0][0]
        if len(self._ended) == 1 or (_plain(first) in text and _plain(self._ended[1][0]) not in text):
            return f"the array `{first}`"
        roots = {path.partition("[")[0].partition(".")[0] for path, _ in self._ended}
        return f"an array in `{roots.pop()}`" if len(roots) == 1 else "an array"

    @property
    def births(self) -> list[Place]:
        """Where the first of them was made."""
        return [birth for _, birth in self._ended if birth is not None][:1]

    @cached_property
    def deletions(self) -> list[Place]:
        """The calls of delete() on something."""
        return [
            source.place("end", call)
            for source in self.raised.sources
            for call in source.calls("delete")
            if not call.args and not call.keywords and isinstance(call.func, ast.Attribute)
        ]

    @cached_property
    def donations(self) -> list[Place]:
        """The calls of functions that are jitted with donated arguments; those in failing functions first."""
        names = {name for source in self.raised.sources for name in _donating(source)}
        functions = {frame.name for frame in self.raised.user}
        found: list[tuple[int, Place]] = []
        for source in self.raised.sources:
            for call in source.calls(*names) if names else ():
                place = source.place("end", call)
                found.append((place.function not in functions, place))
        return [place for _, place in sorted(found, key=lambda entry: entry[0])]

    @cached_property
    def donates_arrays(self) -> bool:
        """Return whether all arguments of the donating calls are arrays, as far as the frames show; False if unknown."""
        names = {name for source in self.raised.sources for name in _donating(source)}
        calls = [(source, call) for source in self.raised.sources for call in source.calls(*names)] if names else []
        return bool(calls) and all(self._takes_arrays(source, call) for source, call in calls)

    def _takes_arrays(self, source: Source, call: ast.Call) -> bool:
        function = source.place("end", call).function
        frames = [frame for frame in self.raised.user if (frame.file, frame.name) == (source.file, function)]
        if not frames or not call.args or call.keywords or not all(isinstance(one, ast.Name) for one in call.args):
            return False
        found = [frames[-1].values.get(one.id) for one in call.args if isinstance(one, ast.Name)]
        return all(values.is_tensor(one) for one in found)

    def callers_of(self, place: Place) -> list[Place]:
        """Where the function that a place stands in is called."""
        if place.function.startswith("<"):
            return []
        return self.raised.calls("end", place.function)

    def lost_owner(self) -> list[Place]:
        """Where a bound method was taken from an object that nobody keeps."""
        here = self.raised.here
        method = here.name.removeprefix("tf__") if here else ""
        for source in self.raised.sources:
            for node in source.nodes:
                if not isinstance(node, ast.Attribute) or node.attr != method or dotted(node.value) == "self":
                    continue
                parent = source.parents.get(node)
                is_called = isinstance(parent, ast.Call) and parent.func is node
                if isinstance(node.value, ast.Call) and not isinstance(node.value.func, ast.Attribute):
                    return [source.place("escape", node)]
                if not is_called and isinstance(parent, ast.Return | ast.Tuple | ast.Dict | ast.keyword | ast.Call):
                    return [source.place("escape", node)]
        return []

    def after_tape(self) -> tuple[Place, str] | None:
        """A loss that was computed behind its tape's `with` block, and its name."""
        for source in self.raised.sources:
            for call in source.calls("gradient"):
                tape = dotted(call.func).rpartition(".")[0]
                target = dotted(call.args[0]) if call.args else ""
                flow = Flow(source, source.owner(call))
                block = _block(flow, tape)
                if block is None or not target or "." in target:
                    continue
                made = flow.last(target, call.lineno)
                if (
                    made is not None
                    and made.line > last_line(block)
                    and made.is_computed
                    and not _other_block(source, made.node, tape)
                ):
                    return source.place("birth", made.node), target
        return None

    def dead_references(self) -> list[Place]:
        """Where the weak reference was made whose call gave None in the failing line."""
        here, source = self.raised.here, self.raised.source(self.raised.here)
        if here is None or source is None:
            return []
        statement = source.statement(here.line)
        flow = Flow(source, source.function(here.line))
        called = (
            {dotted(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)} if statement else set()
        )
        for read in flow.reads_at(here.line):
            step = flow.last(read.partition(".")[0], here.line)
            if step is not None and isinstance(step.value, ast.Call):
                called.add(dotted(step.value.func))
        for near in self.raised.sources:
            for call in near.calls("weakref.ref", "ref", "WeakMethod"):
                statement = near.statement(call.lineno)
                bound = {dotted(target) for target in targets_of(statement)} if statement else set()
                tails = {name.rpartition(".")[2] for name in called if name}
                if any(name.rpartition(".")[2] in tails for name in bound if name):
                    return [near.place("birth", call)]
        return []


def _plain(text: str) -> str:
    return text.replace('"', "'").replace(" ", "")


def _donating(source: Source) -> set[str]:
    """The names of functions that donate: decorated so, or bound to a jit that says so."""
    found: set[str] = set()
    if not any(word in line for line in source.lines for word in _DONATING):
        return found
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(_says(decorator) for decorator in node.decorator_list):
                found.add(node.name)
        elif isinstance(node, ast.Assign) and _says(node.value):
            found |= {dotted(target).rpartition(".")[2] for target in targets_of(node)}
    # A function that gives back a donating jit: what its result is bound to, donates.
    makers = {
        function.name
        for function in source.functions
        if isinstance(function, ast.FunctionDef)
        and any(
            isinstance(n, ast.Return) and n.value is not None and (_says(n.value) or dotted(n.value) in found)
            for n in ast.walk(function)
        )
    }
    for node in source.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and dotted(node.value.func) in makers:
            found |= {dotted(target).rpartition(".")[2] for target in targets_of(node)}
    return found - {""}


def _says(node: ast.AST) -> bool:
    return any(isinstance(part, ast.keyword) and part.arg in _DONATING for part in ast.walk(node))


def _block(flow: Flow, tape: str) -> ast.stmt | None:
    for step in flow.steps:
        if isinstance(step.node, ast.With) and tape in step.binds:
            return step.node
    return None


def _other_block(source: Source, node: ast.AST, tape: str) -> bool:
    """Inside another `with` of a tape, also a second one of the same name."""
    return any(
        isinstance(above, ast.With) and "GradientTape" in ast.unparse(above.items[0]) for above in source.above(node)
    )
