"""torch's autograd behind an exception: who went back before, what was changed in place, whose .grad is None."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeGuard

from tenure.explain import carried, values
from tenure.explain.flow import Flow, Step, meets, reads
from tenure.explain.source import Source, dotted, ends, targets_of
from tenure.findings import Edit, Place

if TYPE_CHECKING:
    from tenure.explain.raised import Frame, Raised

_PASSES = ("backward", "autograd.grad", "manual_backward")
_IN_PLACE = re.compile(r"^[a-z]\w*[a-z0-9]_$")
# Methods that end in an underscore and change no data, or nothing that autograd saved.
_HARMLESS = {
    "requires_grad_",
    "detach_",
    "share_memory_",
    "retain_grad_",
    "apply_",
    "rename_",
    "manual_seed_",
    "train_",
}


@dataclass(frozen=True)
class Shared:
    """What two backward passes both go through."""

    names: tuple[str, ...]
    places: list[Place]
    is_list: bool = False


@dataclass(frozen=True)
class Changes:
    """In-place changes that can be meant, the likeliest first."""

    places: list[Place]
    by_optimizer: bool
    fix: str
    is_same_step: bool = False  # the change comes before the pass in one iteration
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class MissingGrad:
    """`name.grad` is None. `is_leaf` is None where that is not known; `seen`: the tensor itself was looked at."""

    name: str
    is_leaf: bool | None
    seen: bool
    birth: Place | None


class Autograd:
    """What is known of autograd's part in one exception."""

    def __init__(self, raised: Raised) -> None:
        self.raised = raised

    @cached_property
    def carried(self) -> carried.Carried | None:
        """State that carries the graph from turn to turn."""
        return carried.find(self.raised)

    @cached_property
    def backwards(self) -> tuple[Shared | None, list[Place]]:
        """What the failing backward pass shares with an earlier one, and where that one was, if it is another line."""
        frame, source = self._at_pass()
        if frame is None or source is None:
            return None, []
        flow = Flow(source, source.function(frame.line))
        passes = [call for call in source.calls(*_PASSES) if source.owner(call) is flow.function]
        here = [call for call in passes if call.lineno == frame.line]
        before = [call for call in passes if call.lineno < frame.line] + here[:-1]
        mine = flow.cone(_roots_of(here[-1]) if here else _roots(flow, frame.line), frame.line)
        if before:
            call = before[-1]
            theirs = flow.cone(_roots_of(call), call.lineno)
            common = [step for step in mine if step in theirs and step.is_computed and not step.detaches]
            return self._shared(source, common[:1]), [source.place("end", call)]
        return self._kept(flow, frame, mine), []

    def _at_pass(self) -> tuple[Frame | None, Source | None]:
        """The user's frame that goes back: the innermost one whose line says so."""
        for frame in reversed(self.raised.user):
            source = self.raised.source(frame)
            statement = source.statement(frame.line) if source else None
            if statement is not None and any(
                isinstance(node, ast.Call) and ends(dotted(node.func), _PASSES) for node in ast.walk(statement)
            ):
                return frame, source
        return self.raised.here, self.raised.source(self.raised.here)

    def _shared(self, source: Source, steps: list[Step]) -> Shared | None:
        if not steps:
            return None
        names = tuple(sorted(name for step in steps for name in step.binds if name))[:2]
        return Shared(names, [source.place("birth", step.node) for step in steps])

    def _kept(self, flow: Flow, frame: Frame, mine: list[Step]) -> Shared | None:
        """What the turns of a loop share: something made before the loop, or kept in a list that is never emptied."""
        for loop in flow.loops(frame.line):
            outside = [step for step in mine if step.line < loop.lineno and _has_graph(step)]
            if outside:
                return self._shared(flow.source, outside[:1])
        wanted = {read for step in mine for read in step.reads}
        for source in self.raised.sources:
            for node in source.nodes:
                if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
                    continue
                keeper = dotted(node.value.func)
                if keeper.endswith((".append", ".extend")) and _tail(keeper.rpartition(".")[0]) in map(_tail, wanted):
                    name = keeper.rpartition(".")[0]
                    return Shared((name,), [source.place("birth", node)], is_list=True)
        return None

    def in_place(self, op: str) -> Changes:
        """The in-place changes in the functions involved, judged by the operation whose result was changed."""
        found: list[tuple[int, Place, str]] = []
        for source in self.raised.sources:
            for node in source.nodes:
                changed = _change(source, node)
                if changed is None:
                    continue
                flow = Flow(source, source.owner(node))
                score = _score(flow, node, changed, op)
                if score > 0:
                    found.append((score, source.place("end", node), changed))
        found.sort(key=lambda entry: -entry[0])
        steps = [] if found and found[0][0] > 2 else self._optimizer_steps()
        if steps and (not found or op in ("TBackward0", "AsStridedBackward0", "T", "AsStrided", "", "AccumulateGrad")):
            between = self._steps_between(steps)
            fix = (
                f"call `{between[0].text}` after this backward(), or detach what the two losses share, so that this one does "
                "not go through weights that were changed"
                if between
                else "call backward() before optimizer.step(); detach values from earlier steps and remove retain_graph=True"
            )
            places = [*(between or steps)[:1], *[place for _, place, _ in found[:1]]]
            return Changes(places, by_optimizer=True, fix=fix, is_same_step=bool(between))
        if not found:
            return Changes(
                [], by_optimizer=False, fix="write the change out of place (`x = x + y`), or change a `clone()`"
            )
        name = found[0][2]
        places = [place for score, place, _ in found if score == found[0][0]][:2]
        births = self._births(places[0], name)
        edits = self._rewritten(places[0])
        return Changes([*births, *places], by_optimizer=False, fix=_out_of_place(places[0], name), edits=edits)

    def _rewritten(self, place: Place) -> tuple[Edit, ...]:
        """`x += y` as `x = x + y`."""
        source = next((source for source in self.raised.sources if source.file == place.file), None)
        node = source.statement(place.line) if source else None
        if source is None or not isinstance(node, ast.AugAssign) or isinstance(node.target, ast.Subscript):
            return ()
        target = source.segment(node.target)
        whole = ast.unparse(ast.BinOp(ast.Name(target), node.op, node.value))
        return (source.edit(node, f"{target} = {whole}"),)

    def _births(self, place: Place, name: str) -> list[Place]:
        """Where what is changed at a place was made."""
        source = next((source for source in self.raised.sources if source.file == place.file), None)
        if source is None:
            return []
        made = Flow(source, source.function(place.line)).last(name, place.line)
        if made is None or isinstance(made.node, ast.Expr) or (made.value is not None and not made.is_computed):
            return []
        return [source.place("birth", made.node)]

    def _steps_between(self, steps: list[Place]) -> list[Place]:
        """The optimizer's steps between what this backward pass goes through and the pass itself, in one iteration."""
        frame, source = self._at_pass()
        if frame is None or source is None:
            return []
        flow = Flow(source, source.function(frame.line))
        loops = flow.loops(frame.line)
        begin = loops[0].lineno if loops else 0
        made = [
            step.line
            for step in flow.cone(_roots(flow, frame.line), frame.line)
            if step.line > begin and step.is_computed
        ]
        return [one for one in steps if one.file == frame.file and made and min(made) < one.line < frame.line]

    def _optimizer_steps(self) -> list[Place]:
        if not self.raised.mentions("retain_graph", "optim"):
            return []
        return self.raised.calls("end", "step")

    @cached_property
    def missing_grad(self) -> MissingGrad | None:
        """The `.grad` in the failing line, if it is one's being None that failed."""
        none = self.raised.says(
            r"'NoneType' object (?:has no attribute|is not|does not support|cannot be)|unsupported operand type.*'NoneType'"
            r"|not NoneType|got NoneType|must be Tensor, not None|NoneType",
            "AttributeError", "TypeError",
        )  # fmt: skip
        frame = self.raised.here
        source = self.raised.source(frame)
        if not none or frame is None:
            return None
        told = ".grad attribute of a Tensor that is not a leaf Tensor" in self.raised.log
        if source is None:
            name = _grad_in_text(frame.text)
            return MissingGrad(name, False, True, None) if name and told else None
        statement = source.statement(frame.line)
        name = (_grad_in(statement) if statement else "") or self._bound_grad(source, frame)
        if not name:
            return None
        seen = values.lookup(frame, name)
        if _is_torch(seen):
            is_leaf = bool(seen.is_leaf)
            return (
                None
                if is_leaf and seen.grad is not None
                else MissingGrad(name, is_leaf, True, self._made(source, frame, name))
            )
        shown = False if told else self._leaf(source, frame, name)
        return MissingGrad(name, shown, told, self._made(source, frame, name))

    def _bound_grad(self, source: Source, frame: Frame) -> str:
        """`g = p.grad` before a failing line that uses `g`."""
        flow = Flow(source, source.function(frame.line))
        for read in flow.reads_at(frame.line):
            step = flow.last(read.partition(".")[0], frame.line)
            if step is not None and (name := _grad_in(step.node)):
                return name
        return ""

    def _made(self, source: Source, frame: Frame, name: str) -> Place | None:
        made = Flow(source, source.function(frame.line)).last(name, frame.line)
        is_made = made is not None and isinstance(made.node, ast.Assign) and made.is_computed
        return source.place("birth", made.node) if made is not None and is_made else None

    def _leaf(self, source: Source, frame: Frame, name: str) -> bool | None:
        """Whether the source shows an operation on something that requires grad."""
        flow = Flow(source, source.function(frame.line))
        made = flow.last(name, frame.line)
        if made is None or made.value is None:
            return None
        outermost = made.value.func if isinstance(made.value, ast.Call) else None
        if isinstance(outermost, ast.Attribute) and outermost.attr in ("requires_grad_", "detach", "retain_grad"):
            return True
        text = source.segment(made.value)
        if "requires_grad" in text and not isinstance(made.value, ast.Call):
            return False
        if "requires_grad" in text and isinstance(outermost, ast.Attribute) and isinstance(outermost.value, ast.Call):
            return "requires_grad" not in source.segment(outermost.value)
        earlier = flow.cone([name], made.line - 1)
        marked = any(
            "requires_grad" in source.segment(step.node) for step in earlier if not isinstance(step.node, ast.For)
        )
        return (
            False
            if marked and made.is_computed and meets(made.reads, {name, *(b for s in earlier for b in s.binds)})
            else None
        )

    def resets(self) -> list[Place]:
        """What takes gradients away: zero_grad(), or `.grad = None`."""
        if self._comes_after_backward():
            return []
        found = self.raised.calls("end", "zero_grad")
        for source in self.raised.sources:
            for node in source.nodes:
                if _resets(node):
                    found.append(source.place("end", node))
        return found

    def _comes_after_backward(self) -> bool:
        """Whether a backward pass stands right before the read, with no reset between: then it is None for another reason."""
        for frame in reversed(self.raised.user):
            source = self.raised.source(frame)
            if source is None:
                continue
            function = source.function(frame.line)
            calls = [
                (call.lineno, dotted(call.func).endswith("zero_grad"))
                for call in source.calls("zero_grad", *_PASSES)
                if source.owner(call) is function and call.lineno != frame.line
            ]
            calls += [(node.lineno, True) for node in source.nodes if _resets(node) and source.owner(node) is function]
            if calls:
                calls.sort()
                before = [call for call in calls if call[0] < frame.line]
                return not (before or calls)[-1][1]  # the last of them: of the loop's last turn, if none is before
        return False

    def inference_births(self) -> list[Place]:
        """Where the names of the failing line were bound inside inference mode."""
        frame, source = self.raised.here, self.raised.source(self.raised.here)
        if frame is None or source is None:
            return []
        flow = Flow(source, source.function(frame.line))
        for step in flow.cone(flow.reads_at(frame.line), frame.line - 1):
            for above in source.above(step.node):
                if isinstance(above, ast.With) and any("inference_mode" in dotted(i.context_expr) for i in above.items):
                    return [source.place("birth", step.node)]
        return []


def _roots(flow: Flow, line: int) -> set[str]:
    """What a backward pass goes back from."""
    statement = flow.source.statement(line)
    for node in ast.walk(statement) if statement else ():
        if isinstance(node, ast.Call) and ends(dotted(node.func), _PASSES):
            return _roots_of(node)
    return flow.reads_at(line)


def _roots_of(call: ast.Call) -> set[str]:
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    on = set(reads(receiver)) if receiver is not None else set()
    first = {dotted(call.args[0])} - {""} if call.args else set()
    return first if ends(dotted(receiver), ("autograd", "torch")) else on | first


def _has_graph(step: Step) -> bool:
    """Whether a value made before the loop can have a graph: not a model, an optimizer, data or a constant."""
    if step.value is None or step.detaches or not step.is_computed:
        return False
    text = ast.unparse(step.value)
    return "requires_grad" in text and not text.rstrip(")").endswith("requires_grad=True")


def _tail(name: str) -> str:
    return name.rpartition(".")[2]


def _resets(node: ast.AST) -> TypeGuard[ast.Assign]:
    """Return whether this is `p.grad = None`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant) or node.value.value is not None:
        return False
    return any(dotted(target).endswith(".grad") for target in targets_of(node))


def _change(source: Source, node: ast.AST) -> str | None:
    """The name that a statement or call changes in place."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name | ast.Attribute | ast.Subscript):
        return (
            dotted(node.target)
            if not isinstance(node.value, ast.Constant) or isinstance(node.target, ast.Subscript)
            else None
        )
    if isinstance(node, ast.Assign) and any(isinstance(target, ast.Subscript) for target in node.targets):
        target = next(target for target in node.targets if isinstance(target, ast.Subscript))
        is_key = isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
        return None if is_key else dotted(target)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if _IN_PLACE.match(node.func.attr) and node.func.attr not in _HARMLESS:
            return dotted(node.func.value)
        if node.func.attr in ("relu", "dropout", "leaky_relu", "elu") and any(
            k.arg == "inplace" for k in node.keywords
        ):
            return dotted(node.args[0]) if node.args else None
    return None


def _score(flow: Flow, node: ast.AST, name: str, op: str) -> int:
    """How likely a change is meant: it is in a function that computes, of a tensor that an operation called so made."""
    line = int(getattr(node, "lineno", 0))
    if not name or any("no_grad" in ast.unparse(item) for item in _withs(flow.source, node)):
        return 0
    made = flow.last(name, line)
    score = 1
    wanted = re.sub(r"Backward\d*$", "", op).lower()
    if made is not None and made.value is not None:
        if isinstance(made.value, ast.Constant):
            return 0  # a counter
        words = ast.unparse(made.value).lower()
        score += 1 + 3 * bool(wanted and wanted in words)
    elif not isinstance(flow.function, ast.Module):
        score += 1  # an argument: what the caller still needs
    is_forward = getattr(flow.function, "name", "") in ("forward", "__call__", "call")
    return score + is_forward


def _withs(source: Source, node: ast.AST) -> list[ast.expr]:
    return [item.context_expr for above in source.above(node) if isinstance(above, ast.With) for item in above.items]


def _out_of_place(place: Place, name: str) -> str:
    match = re.match(r"^(?P<target>[\w.]+)\s*(?P<op>[-+*/])=\s*(?P<value>.+)$", place.text)
    if match:
        return f"write it out of place: `{match['target']} = {match['target']} {match['op']} {match['value']}`"
    if "[" in place.text and "=" in place.text:
        return f"change a copy (first `{name} = {name}.clone()`), or compute the result with `torch.where` or `masked_fill`"
    return f"use the operation without the underscore, or change a clone of `{name}`"


def _grad_in(node: ast.AST) -> str:
    for part in ast.walk(node):
        if (
            isinstance(part, ast.Attribute)
            and part.attr == "grad"
            and dotted(part.value) not in ("torch.autograd", "autograd", "jax")
        ):
            return dotted(part.value)
    return ""


def _grad_in_text(line: str) -> str:
    """The same from one line of a traceback whose file is not here."""
    found = re.search(r"(?P<name>[A-Za-z_][\w.]*)\.grad\b", line)
    return found["name"] if found else ""


def _is_torch(value: object) -> bool:
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type.mro(type(value)))
