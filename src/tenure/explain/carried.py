"""State that a training loop carries from one turn to the next with its graph: the name, and the line that carries it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenure.explain.flow import Flow, Step, meets, reads, statements
from tenure.explain.source import Source, dotted, first_line, name_of

if TYPE_CHECKING:
    from tenure.explain.raised import Raised


# Sums and averages of losses and weights: carried along, but not through the model.
_STATISTIC = re.compile(
    r"mean|var$|std|avg|average|ema|shadow|running|count|total|loss|^steps?$|epoch|best|momentum|decay|grad"
)


@dataclass(frozen=True)
class Carried:
    """`name` is bound in each turn from its own last value, by `step`, and never detached in between."""

    source: Source
    name: str
    step: Step


def find(raised: Raised) -> Carried | None:
    """What carries the graph over, looked for in the loops around the failing lines, then in the classes they use."""
    for frame in reversed(raised.user):
        source = raised.source(frame)
        if source is None:
            continue
        flow = Flow(source, source.function(frame.line))
        for loop in flow.loops(frame.line):
            found = next(_in_loop(flow, loop, frame.line), None)
            if found is not None:
                return Carried(source, found[0], found[1])
    for source in raised.sources:
        for name, step in _in_classes(source):
            if not _is_renewed(raised, source, name):
                return Carried(source, name, step)
        for name, step in _in_globals(source):
            return Carried(source, name, step)
    return None


def _in_loop(flow: Flow, loop: ast.AST, line: int) -> Iterator[tuple[str, Step]]:
    """The names that a loop carries into what fails at `line`."""
    inside = flow.inside(loop)
    for step in inside:
        for name in step.binds:
            if not _is_state(step, name) or step.node is loop:
                continue
            tainted = _tainted(inside, name)
            if not _depends(step, name, tainted) or _is_cut(inside, name):
                continue
            first = next(other for other in inside if name in other.binds)
            if not _depends(first, name, tainted):
                continue  # made anew in each turn
            before = flow.last(name, first_line(loop))
            if before is None and not name.startswith("self."):
                continue
            read = flow.reads_at(line)
            # A sum that is itself gone back through is an accumulated loss, not a state.
            if meets(read, tainted) and f"{name}.backward" not in read:
                yield name, step


def _is_state(step: Step, name: str) -> bool:
    """A sum of losses, a counter or a list is no recurrent state."""
    if not isinstance(step.node, ast.Assign) or not step.is_computed:
        return False
    if step.detaches or any("grad" in word for word in (name, *step.reads)):
        return False
    return any(isinstance(part, ast.Call) for part in ast.walk(step.value or ast.Pass())) or len(step.reads) > 2


def _tainted(steps: list[Step], name: str) -> set[str]:
    """The names that come from `name` in these steps. Assignments only: a method call may change anything or nothing."""
    found = {name}
    kept = [step for step in steps if isinstance(step.node, ast.Assign | ast.AugAssign)]
    for _ in range(4):
        for step in kept:
            if not step.binds <= found and meets(step.reads, found) and not step.detaches:
                found |= step.binds
    return found


def _depends(step: Step, name: str, tainted: set[str]) -> bool:
    return meets(step.reads, {name}) or (name in tainted and meets(step.reads, tainted - {name}))


def _is_cut(steps: list[Step], name: str) -> bool:
    """Whether these steps take the name off its graph."""
    return any(name in step.binds and (step.detaches or _calls_detach(step)) for step in steps)


def _calls_detach(step: Step) -> bool:
    return isinstance(step.node, ast.Expr) and isinstance(step.value, ast.Call) and "detach" in dotted(step.value.func)


def _in_classes(source: Source) -> Iterator[tuple[str, Step]]:
    """`self.h = f(…, self.h)` in a method, with whatever stands in between."""
    for function in source.functions:
        if isinstance(function, ast.Lambda | ast.Module) or source.class_of(function) is None:
            continue
        if function.name == "__init__" or any("no_grad" in dotted(d) for d in function.decorator_list):
            continue
        flow = Flow(source, function)
        for step in flow.steps:
            for name in step.binds:
                if not name.startswith("self.") or name.count(".") != 1 or not _is_own_state(step, name, flow):
                    continue
                tainted = _tainted([s for s in flow.steps if s.line <= step.line], name)
                if (
                    _depends(step, name, tainted)
                    and not _is_cut(list(flow.steps), name)
                    and not _in_no_grad(source, step)
                ):
                    yield name, step


def _is_own_state(step: Step, name: str, flow: Flow) -> bool:
    if _STATISTIC.search(name.partition(".")[2]):
        return False
    if isinstance(step.node, ast.AugAssign):
        read_elsewhere = any(name in other.reads for other in flow.steps if other is not step)
        return read_elsewhere and not isinstance(step.value, ast.Constant)
    if not isinstance(step.node, ast.Assign) or step.detaches:
        return False
    others = {read for read in step.reads if read not in (name, "self")}
    return bool(others) and not isinstance(step.value, ast.Constant)


def _in_no_grad(source: Source, step: Step) -> bool:
    return any(
        isinstance(above, ast.With) and any("no_grad" in dotted(item.context_expr) for item in above.items)
        for above in source.above(step.node)
    )


def _is_renewed(raised: Raised, source: Source, name: str) -> bool:
    """Whether a method that resets or detaches the attribute is called in the loop that fails."""
    attribute = name.partition(".")[2]
    resets = set()
    for function in source.functions:
        if name_of(function) == "__init__" or source.class_of(function) is None:
            continue
        steps = list(Flow(source, function).steps)
        tainted = _tainted(steps, name)
        for step in steps:
            renews = step.detaches or _calls_detach(step) or not _depends(step, name, tainted)
            if name in step.binds and renews and not _is_guarded(source, step, attribute):
                resets.add(name_of(function))
    for frame in raised.user:
        at = raised.source(frame)
        if at is None:
            continue
        flow = Flow(at, at.function(frame.line))
        for loop in flow.loops(frame.line):
            for call in (part for part in ast.walk(loop) if isinstance(part, ast.Call)):
                if dotted(call.func).rpartition(".")[2] in resets:
                    return True
            if any(
                binds.endswith("." + attribute)
                for step in flow.inside(loop)
                for binds in step.binds
                if step.node is not loop
            ):
                return True
    return False


def _is_guarded(source: Source, step: Step, attribute: str) -> bool:
    """`if self.h is None: self.h = zeros` happens once, and renews nothing."""
    return any(
        isinstance(above, ast.If) and any(read.endswith("." + attribute) for read in reads(above.test))
        for above in source.above(step.node)
    )


def _in_globals(source: Source) -> Iterator[tuple[str, Step]]:
    """`global h; h = f(x, h)` in a function."""
    if not any(isinstance(node, ast.Global | ast.Nonlocal) for node in source.statements):
        return
    for function in source.functions:
        outer = {
            name for node in statements(function) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
        }
        if not outer:
            continue
        flow = Flow(source, function)
        for step in flow.steps:
            for name in step.binds & outer:
                tainted = _tainted([s for s in flow.steps if s.line <= step.line], name)
                if _is_state(step, name) and _depends(step, name, tainted) and not _is_cut(list(flow.steps), name):
                    yield name, step
